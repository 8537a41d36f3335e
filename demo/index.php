<?php
// The same for everyone, so it may be shared: for ten seconds it need not be made again.
header('Cache-Control: public, max-age=10');
require __DIR__ . '/page.php';
page_begin('What time was it?');
?>
<p>PHP made this page at <strong><?= date('H:i:s') ?></strong>.</p>
<p>Load it again. While the time stands still, the page comes out of larder and PHP rests; the line that larder prints
for the request says <code>HIT</code>. After ten seconds one visitor's request makes PHP run again, and nobody waits
for it.</p>
<?php page_end();
