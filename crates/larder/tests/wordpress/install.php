<?php
// Makes a WordPress of the files beside it: database, author, settings and the pages that the tests visit.
// Called as: php install.php SOCKET HOST

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$database = new mysqli('localhost', 'root', '', '', 0, $argv[1]);
$database->query('CREATE DATABASE wordpress CHARACTER SET utf8mb4');

$_SERVER['HTTP_HOST'] = $argv[2];
$_SERVER['REQUEST_URI'] = '/';
$_SERVER['REQUEST_METHOD'] = 'GET';
define('WP_INSTALLING', true);
require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';

wp_install('Larder News', 'anna', 'anna@example.org', true, '', 'open sesame');

update_option('permalink_structure', '/%postname%/');
update_option('comment_moderation', 1);
update_option('default_comment_status', 'open');
switch_theme('twentytwentyone');

function publish(string $slug, array $more = []): void
{
    $id = wp_insert_post($more + [
        'post_name' => $slug,
        'post_title' => "Title of $slug",
        'post_content' => "Content of $slug.",
        'post_status' => 'publish',
        'post_author' => 1,
        'comment_status' => 'open',
    ], true);
    if (is_wp_error($id)) {
        fwrite(STDERR, $id->get_error_message() . "\n");
        exit(1);
    }
    // So that the tests know the number that a comment form sends.
    echo "$slug $id\n";
}

publish('plain');
publish('for-authors');
publish('for-browsers');
publish('commented');
publish('secret', ['post_password' => 'swordfish']);
publish('slow');
publish('fragile');
