about WordPress
with common
found wp-load.php
found wp-includes/version.php
found wp/wp-load.php
found wordpress/wp-load.php
found cms/wp-load.php

# Who is logged in, has given the password of a post, or has written a comment. WordPress adds a hash to each name.
personal cookie wordpress_logged_in_* wordpress_sec_* wordpress_no_cache wp-settings-*
personal cookie wp-postpass_*
personal cookie comment_author_*
personal cookie PHPSESSID wp_session _wp_session

# Everybody gets it with the form of a login, to see whether cookies are taken.
ignored cookie wordpress_test_cookie

# Plugins that give one to every visitor. A language is in the URL: these are for requests of scripts, which pass anyway.
# A cookie of Polylang, or of a currency, may change pages and is in no row: name it in a profile of your own.
ignored cookie wp-wpml_current_language _icl_visitor_lang_js wpml_browser_redirect_test wpml_referer_url trp_language
# Read again with a form or an order, which pass.
ignored cookie mailchimp_landing_site affwp_* pmpro_visit _wpfuuid mailpoet_page_view apbct_* ct_ps_timestamp ct_fkp_timestamp
ignored cookie ct_timezone ct_checkjs ct_pointer_data ct_screen_info ct_has_scrolled ct_mouse_moved wordfence_verifiedHuman wfvt_*
# Analytics, and windows that were closed.
ignored cookie pys_* pysTrafficSource last_pys* burst_uid _koko_analytics_pages_viewed slimstat_tracking_code
ignored cookie pum-* hustle_module_show_count-* inc_optin_* popup_form_dismissed_* SGPBShowingLimitation* icegram_*

personal path /wp-admin /wp-login /wp-signup /wp-activate /wp-cron /wp-comments-post /wp-trackback /wp-mail /wp-json /xmlrpc
personal path /cart /checkout /my-account /account /login /logout
personal argument preview preview_id preview_nonce customize_changeset_uuid customize_theme _wpnonce rest_route
personal argument unapproved moderation-hash wp_scrape_key doing_wp_cron
# Previews of page builders.
personal argument elementor-preview fl_builder et_fb ct_builder vc_editable bricks
personal field X-WP-Nonce X-Requested-With

# What themes, plugins and WordPress itself bring. Uploads are not among them: some sites protect theirs.
static 30d /wp-content/themes/*.css /wp-content/themes/*.js /wp-content/themes/*.png /wp-content/themes/*.jpg
static 30d /wp-content/themes/*.svg /wp-content/themes/*.webp /wp-content/themes/*.woff /wp-content/themes/*.woff2
static 30d /wp-content/plugins/*.css /wp-content/plugins/*.js /wp-content/plugins/*.png /wp-content/plugins/*.jpg
static 30d /wp-content/plugins/*.svg /wp-content/plugins/*.webp /wp-content/plugins/*.woff /wp-content/plugins/*.woff2
static 30d /wp-includes/*.css /wp-includes/*.js /wp-includes/*.png /wp-includes/*.gif /wp-includes/*.svg
static 30d /wp-includes/*.woff /wp-includes/*.woff2

first path /wp-login /checkout /cart
last path /wp-cron /xmlrpc /feed

purge nginx-helper, Proxy Cache Purge, WP Rocket, W3 Total Cache, Breeze, CloudPanel's plugin
tags X-Cache-Tags
