<?php
/** The top of every page. */
function page_begin(string $title): void
{
    header('Content-Type: text/html; charset=utf-8');
    $title = htmlspecialchars($title);
    echo <<<HTML
        <!doctype html>
        <html lang="en">
        <title>$title</title>
        <meta name="viewport" content="width=device-width">
        <link rel="stylesheet" href="style.css">
        <nav><a href="./">Time</a> <a href="slow.php">Slow</a> <a href="guest.php">Guest</a></nav>
        <h1>$title</h1>

        HTML;
}

/** The end of every page. */
function page_end(): void
{
    echo "</html>\n";
}
