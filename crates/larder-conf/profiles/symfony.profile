about Symfony
with common
found bin/console
found ../bin/console

# Sessions, who stays logged in, and the redirect that the profiler remembers.
personal cookie PHPSESSID REMEMBERME sf_redirect *_session

personal path /login /logout /register /admin /account /profile /cart /basket /checkout /_profiler /_wdt /_fragment /_error
personal argument _token _switch_user _hash
personal field X-Requested-With X-CSRF-Token X-Switch-User Turbo-Frame

static 30d /build/*.css /build/*.js /build/*.svg /build/*.png /build/*.jpg /build/*.woff2
static 30d /bundles/*.css /bundles/*.js /bundles/*.svg /bundles/*.png /assets/*.css /assets/*.js /assets/*.svg

first path /login /cart /checkout

purge FOSHttpCache
