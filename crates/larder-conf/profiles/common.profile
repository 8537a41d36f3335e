about what all sites have in common: who is known by a password, analytics, campaigns

# A cookie that neither this file nor the profile of the application knows is personal: "larder why" names it.

personal field Authorization X-Authorization Proxy-Authorization

# Cookies of analytics and advertising, which scripts in the browser read.
ignored cookie _ga _ga_* _gid _gat* _gcl_* _gac_* _gaexp* _dc_gtm_* __utm* __gads __gpi __eoi FCCDCF FCNEC FCOEC
ignored cookie _fbp _fbc _pk_id* _pk_ses* _pk_ref* _pk_cvar* mtm_* _hj* _clck _clsk
ignored cookie __hstc __hssc __hssrc hubspotutk _uetsid _uetvid _uetmsclkid _ym_* _ttp _tt_enable_cookie ttcsid*
ignored cookie _scid _scid_r _rdt_uuid _pin_unauth _mkto_trk ajs_anonymous_id ajs_user_id
ignored cookie mp_*_mixpanel amplitude_* sbjs_* tk_ai tk_or tk_r3d tk_lr tk_qs

# Cookies of protection against attacks, and of banners that ask for consent.
ignored cookie __cf_bm cf_clearance
ignored cookie CookieConsent cookieconsent_* cookie_notice_accepted cookielawinfo-* viewed_cookie_policy cmplz_*
ignored cookie OptanonConsent OptanonAlertBoxClosed euconsent-v2 borlabs-cookie real_cookie_banner* moove_gdpr_popup

# Where a visitor comes from. Scripts in the browser read these; the page is the same.
ignored argument utm_* gclid gclsrc dclid gbraid wbraid gad_source gad_campaignid srsltid _ga _gl
ignored argument fbclid fb_action_ids fb_action_types fb_source igshid igsh msclkid yclid ymclid _openstat
ignored argument ttclid twclid li_fat_id epik rdt_cid ScCid wickedid mc_cid mc_eid mkt_tok
ignored argument _hsenc _hsmi __hssc __hstc __hsfp hsCtaTracking _ke _kx s_kwcid ef_id vero_id oly_anon_id oly_enc_id
ignored argument pk_campaign pk_kwd pk_keyword pk_source pk_medium pk_content pk_cid piwik_campaign piwik_kwd mtm_*
ignored argument matomo_campaign matomo_kwd

# Where the origin is short of workers, programs come last.
last agent bot crawl spider slurp facebookexternalhit headless scrapy python-requests curl wget
