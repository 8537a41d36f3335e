<?php
// Writes a line for each run of PHP behind the server, makes one page slow, and breaks one while a file says so.
if (PHP_SAPI === 'fpm-fcgi') {
    $host = explode(':', $_SERVER['HTTP_HOST'])[0];
    $run = sprintf("%.6f %s %s %s\n", microtime(true), $_SERVER['REQUEST_METHOD'], $host, $_SERVER['REQUEST_URI']);
    file_put_contents(LARDER_RUNS, $run, FILE_APPEND | LOCK_EX);
    if ($_SERVER['REQUEST_URI'] === '/slow/') {
        usleep(LARDER_SLOW_US);
    }
    if ($_SERVER['REQUEST_URI'] === '/fragile/' && file_exists(LARDER_BROKEN)) {
        http_response_code(500);
        exit('broken');
    }
}
// One test comments twice, faster than people do.
add_filter('comment_flood_filter', '__return_false', 99);
