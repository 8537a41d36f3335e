about MediaWiki
with common
found LocalSettings.php

# Who is logged in, or was until now, or has begun to edit. MediaWiki puts the name of the database before each.
personal cookie *UserID *UserName *Token *_session *LoggedOut *_BPsession
personal cookie UseDC UseCDNCache cpPosIndex

# A number that scripts keep for their statistics.
ignored cookie *mwuser-sessionId *wmE-sessionTickLastTickTime *wmE-sessionTickTickCount

personal path /Special: /index.php/Special: /api.php /rest.php /mw-config
personal argument title=Special:* title=special:* wpEditToken token redlink veaction section
personal argument action=edit action=submit action=delete action=protect action=unprotect action=move action=rollback
personal argument action=watch action=unwatch action=purge action=markpatrolled action=revert action=mcrundo action=login

static 30d /resources/*.css /resources/*.js /resources/*.png /resources/*.svg /resources/*.gif
static 30d /skins/*.css /skins/*.js /skins/*.png /skins/*.svg /skins/*.gif /extensions/*.css /extensions/*.js
static 30d /extensions/*.png /extensions/*.svg

first argument action=submit action=edit
last argument action=history oldid diff

purge MediaWiki's own, with $wgUseCdn and $wgCdnServers
