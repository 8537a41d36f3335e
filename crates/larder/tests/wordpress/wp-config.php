<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:@DATABASE@');
define('DB_CHARSET', 'utf8mb4');
$table_prefix = 'wp_';

// Debian's fastcgi_params pass the name without the port, and links need it.
if (strpos($_SERVER['HTTP_HOST'], ':') === false) {
    $_SERVER['HTTP_HOST'] .= ':' . ($_SERVER['SERVER_PORT'] ?? '@PORT@');
}

// One site under all names of the test, in the clear and not, as the server says.
$is_safe = ($_SERVER['HTTPS'] ?? '') === 'on';
define('WP_HOME', ($is_safe ? 'https://' : 'http://') . $_SERVER['HTTP_HOST']);
define('WP_SITEURL', WP_HOME);

foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) {
    define($name . '_KEY', "key of $name");
    define($name . '_SALT', "salt of $name");
}

// Nothing leaves the machine, and nothing happens behind the test's back.
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('DISABLE_WP_CRON', true);

define('LARDER_RUNS', '@FOLDER@/runs.log');
define('LARDER_BROKEN', '@FOLDER@/broken');
define('LARDER_SLOW_US', @SLOW_US@);

if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
