about Laravel
with common
found artisan
found ../artisan

# The session, which is named after the application, the token of its forms, and who stays logged in.
personal cookie laravel_session *_session XSRF-TOKEN remember_*

personal path /login /logout /register /password /email /user /admin /dashboard /account /cart /basket /checkout
personal path /livewire /sanctum /oauth /broadcasting /nova /nova-api /horizon /telescope /pulse /_debugbar /_ignition
personal argument signature _token
personal field X-Requested-With X-CSRF-Token X-XSRF-Token X-Livewire X-Inertia HX-Request

static 30d /build/*.css /build/*.js /build/*.svg /build/*.png /build/*.jpg /build/*.woff2

first path /login /cart /checkout
