about Drupal 10 and 11
with common
found core/lib/Drupal.php

# Sessions, by http and by https, and who has just sent a form.
personal cookie SESS* SSESS* NO_CACHE big_pipe_nojs Drupal.visitor.*

# Set by scripts.
ignored cookie has_js

personal path /user /admin /batch /cron /node/add /node/preview /contact /cart /checkout /flag /ajax /views/ajax
personal path /system/ajax /system/files /session/token /jsonapi /update.php /install.php /core/install.php /core/rebuild.php
personal argument token form_id ajax_form _wrapper_format ajax_page_state destination
personal field X-Requested-With X-CSRF-Token

static 30d /core/*.css /core/*.js /core/*.svg /core/*.png /core/*.gif /core/*.woff2
static 30d /modules/*.css /modules/*.js /modules/*.svg /modules/*.png
static 30d /themes/*.css /themes/*.js /themes/*.svg /themes/*.png /themes/*.jpg /themes/*.woff /themes/*.woff2
static 30d /files/css/*.css /files/js/*.js /files/styles/*.jpg /files/styles/*.png /files/styles/*.webp

first path /user /checkout /cart
last path /cron

purge Purge with the HTTP purger, Varnish Purger, Generic HTTP Tags Header
tags Purge-Cache-Tags Cache-Tags
