<?php
// A page that takes long to make, as pages with many queries do.
header('Cache-Control: public, max-age=10');
require __DIR__ . '/page.php';
$began = microtime(true);
usleep(1500000);
page_begin('A slow page');
?>
<p>PHP worked <strong><?= number_format(microtime(true) - $began, 2) ?> seconds</strong> on this page, and finished at
<strong><?= date('H:i:s') ?></strong>.</p>
<p>You waited for it only if you were the first. From then on larder has it, and when it grows old it is made anew
behind the back of its readers.</p>
<?php page_end();
