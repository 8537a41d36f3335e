about Easy Digital Downloads, on top of WordPress
with wordpress
found wp-content/plugins/easy-digital-downloads/easy-digital-downloads.php
found wp-content/plugins/easy-digital-downloads-pro/easy-digital-downloads.php
found app/plugins/easy-digital-downloads/easy-digital-downloads.php

# Who has something in the cart, or a session for it.
personal cookie edd_* wp_edd_*

personal path /checkout /purchase-confirmation /purchase-history /transaction-failed /edd-api
personal argument edd_action edd-listener edd-api eddfile payment-mode payment_key download_key

first path /checkout
