about what all sites have in common: who is known by a password, analytics, campaigns

# A cookie that neither this file nor the profile of the application knows is personal: "larder why" names it.

personal field Authorization X-Authorization Proxy-Authorization

# Cookies of analytics and advertising, which scripts in the browser read.
ignored cookie _ga _ga_* _gid _gat* _gcl_* _gac_* _gaexp* _dc_gtm_* __utm* __gads __gpi __gpi_optout __eoi FCCDCF FCNEC FCOEC
ignored cookie _fbp _fbc _pk_id* _pk_ses* _pk_ref* _pk_cvar* mtm_* _hj* _clck _clsk
ignored cookie __hs* hubspotutk _uetsid _uetvid _uetmsclkid _ym_* _ttp _tt_enable_cookie ttcsid*
ignored cookie _scid _scid_r _rdt_* _pin_unauth _derived_epik _mkto_trk ajs_anonymous_id ajs_user_id ajs_group_id
ignored cookie mp_*_mixpanel ph_*_posthog amplitude_* AMP_* sbjs_* tk_ai tk_or tk_r3d tk_lr tk_qs
ignored cookie _twpid _twclid li_fat_id ln_or cto_bundle cto_bidid cto_tld_test __adroll* __ar_v4 __qca __kla_id
ignored cookie _hp2_* _hp5_* fs_uid fs_lua _lo_uid _lo_v _lorid _ceir _CEFT cebs* _ce.* _vwo_* _vis_opt_*
ignored cookie rl_anonymous_id rl_user_id rl_trait rl_session _dd_s _sp_id.* _sp_ses.* _parsely_* _cb _cb_ls _cb_svref _chartbeat*
ignored cookie Hm_lvt_* Hm_lpvt_* AMCV_* AMCVS_* s_cc s_sq s_fid s_ppv* s_nr* kndctr_* sc_is_visitor_unique
ignored cookie pi_opt_in* sib_cuid omnisend* soundest* _drip_client_* _omappvp _omappvs omSeen-* omSuccess-*
ignored cookie _cc_id panoramaId* _pubcid* _sharedid* id5id* _li_dcdm_c _lc2_fpi __atuvc __atuvs __stid _uc_* __gtm_*

# Cookies of chats, which are windows of scripts.
ignored cookie tawkConnectionTime TawkConnectionTime tawkUUID twk_* intercom-* crisp-client* drift_* driftt_aid messagesUtk
ignored cookie __zlcmid __zlcprivacy __zlcstore hblid olfsk wcsid _okdetect _okbk _okla _okac _okgid _oklv
ignored cookie ssupp.* jv_* uslk_* _fw_crm_v siqlsdb

# Cookies of protection against attacks and fraud, and of what balances load in front.
ignored cookie __cf_bm cf_clearance _cfuvid __cfruid __cflb cf_chl_* __stripe_mid __stripe_sid _GRECAPTCHA datadome _px* pxcts
ignored cookie visid_incap_* incap_ses_* nlbi_* ak_bmsc bm_* _abck AWSALB* aws-waf-token ARRAffinity* GCLB sucuri_cloudproxy_*

# Cookies of banners that ask for consent: scripts load what was agreed to.
ignored cookie CookieConsent CookieConsentBulk* cookieconsent_* cookie_notice_accepted cookielawinfo-* viewed_cookie_policy
ignored cookie cookieyes-consent CookieLawInfoConsent cookieyesID cky-* cli_user_preference cmplz_* complianz_* wp_consent_*
ignored cookie OptanonConsent OptanonAlertBoxClosed euconsent-v2 addtl_consent usprivacy didomi_token _iub_cs-* axeptio_*
ignored cookie borlabs-cookie* real_cookie_banner* moove_gdpr_popup tarteaucitron klaro cc_cookie osano_consentmanager*
ignored cookie CookieInformationConsent CookieScriptConsent CookieControl __cmp* consentUUID notice_behavior notice_preferences
ignored cookie notice_gdpr_prefs cmapi_* TAconsentID cookie-agreed* catAccCookies

# The translation by Google happens in the browser.
ignored cookie googtrans

# Where a visitor comes from. Scripts in the browser read these; the page is the same.
ignored argument utm_* gclid gclsrc dclid gbraid wbraid gad_source gad_campaignid srsltid _ga _gl
ignored argument fbclid fb_action_ids fb_action_types fb_source igshid igsh msclkid yclid ymclid _openstat
ignored argument ttclid twclid li_fat_id epik rdt_cid ScCid wickedid mc_cid mc_eid mkt_tok
ignored argument _hsenc _hsmi __hssc __hstc __hsfp hsCtaTracking _ke _kx s_kwcid ef_id vero_id oly_anon_id oly_enc_id
ignored argument pk_campaign pk_kwd pk_keyword pk_source pk_medium pk_content pk_cid piwik_campaign piwik_kwd mtm_*
ignored argument matomo_campaign matomo_kwd

# Where the origin is short of workers, who has a session, a login or a cart comes first, and programs come last: most
# say in User-Agent where they are explained. A telephone is called CUBOT.
first cookie PHPSESSID JSESSIONID sessionid connect.sid laravel_session MoodleSession* SESS* SSESS* session-*
first cookie wordpress_logged_in_* wordpress_sec_* wp_woocommerce_session_* woocommerce_items_in_cart edd_items_in_cart
first cookie fe_typo_user be_typo_user joomla_user_state PrestaShop-* X-Magento-Vary mage-cache-sessid sw-states
last agent bot/ bot- googlebot +http crawl spider slurp facebookexternalhit meta-externalagent headless scrapy
last agent python-requests curl/ wget/
