about Nextcloud: its own files; all else is somebody's
with common
found occ status.php remote.php
else personal

# Each visitor has cookies from the first page on, which these do not depend on. What is made for a user, such as
# /core/preview.png, is not among them.
static 180d /core/css/*.css /core/js/*.js /core/js/*.mjs /core/fonts/*.woff /core/fonts/*.woff2
static 180d /core/img/*.svg /core/img/*.png /core/img/*.jpg /core/img/*.webp /core/img/*.ico
static 180d /dist/*.js /dist/*.mjs /dist/*.css /dist/*.map /dist/*.svg
static 180d /apps/*.css /apps/*.mjs /apps/*.woff2 /apps/*.wasm
static 180d /apps/*.js
