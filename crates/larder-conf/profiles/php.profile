about an application in PHP that is not known
with common

personal path /admin /account /my-account /login /logout /cart /basket /checkout
personal argument preview preview_id _wpnonce
personal field X-Requested-With X-CSRF-Token HX-Request X-PJAX Origin

first path /cart /basket /checkout
