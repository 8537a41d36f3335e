about Joomla
with common
found configuration.php administrator/index.php

# The cookie of a session has a hash for its name, which no row can tell: unknown cookies are personal.
personal cookie joomla_user_state joomla_remember_me_* jpanesliders*

personal path /administrator /component/users /component/ajax /component/contact /component/privacy /api
personal argument option=com_users option=com_ajax option=com_contact option=com_privacy task return token
personal field X-Requested-With X-CSRF-Token

static 30d /media/*.css /media/*.js /media/*.svg /media/*.png /media/*.woff2 /media/*.gif
static 30d /templates/*.css /templates/*.js /templates/*.svg /templates/*.png /templates/*.jpg

first path /administrator
