about WooCommerce, on top of WordPress
with wordpress
found wp-content/plugins/woocommerce/woocommerce.php
found app/plugins/woocommerce/woocommerce.php

# Who has something in the cart, or has looked at a product.
personal cookie woocommerce_items_in_cart woocommerce_cart_hash wp_woocommerce_session_* woocommerce_recently_viewed
personal cookie store_notice*

personal path /cart /basket /checkout /my-account /order-pay /order-received /lost-password /customer-logout /wc-api
personal argument add-to-cart remove_item undo_item removed_item wc-ajax wc-api order_again pay_for_order download_file
personal field Cart-Token Nonce

first path /order-pay /order-received
first argument wc-ajax add-to-cart
