about bbPress, on top of WordPress
with wordpress
found wp-content/plugins/bbpress/bbpress.php
found app/plugins/bbpress/bbpress.php

# Who is logged in, or has written as a guest, is known by the cookies of WordPress.

# Forms, and links that do something.
personal argument bbp_reply_to bbp_redirect_to topic_id reply_id forum_id action=bbp_*
