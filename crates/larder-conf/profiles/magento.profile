about Magento 2 and Adobe Commerce
with common
found app/etc/env.php bin/magento
found ../app/etc/env.php ../bin/magento

# The group, currency and store of a visitor, where they are not the usual ones: who is logged in has it.
personal cookie X-Magento-Vary
personal cookie persistent_shopping_cart login_redirect admin

# A page that may be stored is the same with and without a session: what is personal in it, scripts fetch apart. Pages
# that are not say so themselves. The session goes on to PHP, which would begin another, with an empty cart.
keyed cookie PHPSESSID
ignored cookie form_key mage-* private_content_version section_data_ids user_allowed_save_cookie
ignored cookie recently_viewed_product* recently_compared_product* product_data_storage

personal path /customer /checkout /cart /wishlist /sales /paypal /downloadable /newsletter /sendfriend /catalogsearch /search
personal path /admin /backend /rest /soap /graphql /banner /page_cache/block
personal argument ajax isAjax ___store ___from_store SID
personal field X-Requested-With

static 365d /static/*.css /static/*.js /static/*.json /static/*.html /static/*.map /static/*.svg /static/*.png /static/*.gif
static 365d /static/*.jpg /static/*.ico /static/*.woff /static/*.woff2 /static/*.ttf
static 30d /media/catalog/*.jpg /media/catalog/*.jpeg /media/catalog/*.png /media/catalog/*.gif /media/catalog/*.webp

first path /checkout /customer /paypal
last path /catalogsearch

purge Magento's own, "Varnish" as its cache
tags X-Magento-Tags
