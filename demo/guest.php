<?php
// A page that is different for everyone: it has a session, so it must never be shared.
session_start();
require __DIR__ . '/page.php';
if ($_SERVER['REQUEST_METHOD'] === 'POST') {
    $_SESSION['name'] = plain_name($_POST['name'] ?? '');
    header('Location: guest.php', true, 303);
    exit;
}
$name = $_SESSION['name'] ?? '';
$_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
page_begin($name === '' ? 'Who are you?' : "Hello $name");
?>
<p>This is your visit number <strong><?= $_SESSION['visits'] ?></strong>; PHP counts it in your session. larder sees the
session's cookie and keeps out of the way: the line it prints says <code>BYPASS</code>, and no other visitor ever gets
your page. Try it with a private window.</p>
<form method="post">
<label>Your name <input name="name" value="<?= htmlspecialchars($name) ?>" maxlength="40"></label>
<button>Tell</button>
</form>
<?php page_end();

/** At most 40 bytes of valid text, without control characters. */
function plain_name($name): string
{
    $name = is_string($name) ? substr(trim($name), 0, 40) : '';
    return preg_match('/^[^\p{C}]*$/u', $name) ? $name : '';
}
