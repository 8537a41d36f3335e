//! The account at the CA: the stored one, or a new one.
//!
//! A new account's key is stored before the CA hears of it, and asking twice with one key gives one account
//! (RFC 8555 §7.3.1), so that a crash in between makes no second one. Only with an external account the library makes
//! the key itself, and it is stored right after.

use crate::account::Account;
use crate::client::Client;
use crate::failure::{Failure, kind};
use crate::log::{Level, Log};
use crate::store::Store;
use instant_acme::{AccountCredentials, Error, ExternalAccountKey, Key, NewAccount};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use std::time::SystemTime;

/// What registering works with.
pub(crate) struct Registration<'a> {
    pub(crate) settings: &'a Account,
    pub(crate) store: &'a Store,
    pub(crate) client: &'a Client,
    pub(crate) log: &'a Log,
    pub(crate) now: SystemTime,
}

impl Registration<'_> {
    /// The account, with the CA's directory read anew. Two of these must not run at once.
    pub(crate) async fn account(&self) -> Result<instant_acme::Account, Failure> {
        match self.stored() {
            Some((stored, credentials)) => {
                let builder = instant_acme::Account::builder_with_http(Box::new(self.client.clone()));
                let doing = format!("read the directory {}", self.settings.directory);
                let account =
                    builder.from_credentials(credentials).await.map_err(|error| self.failed(&doing, &error))?;
                self.update_contact(&account, stored).await;
                Ok(account)
            }
            None => self.make().await,
        }
    }

    fn stored(&self) -> Option<(Value, AccountCredentials)> {
        let stored = self.store.account()?;
        let is_here = stored.get("directory").and_then(Value::as_str) == Some(&self.settings.directory);
        let credentials = stored.get("credentials").cloned().and_then(|value| serde_json::from_value(value).ok());
        match credentials.filter(|_| is_here) {
            Some(credentials) => Some((stored, credentials)),
            None => {
                self.store.set_account_aside("there is no account of this CA in it");
                None
            }
        }
    }

    async fn make(&self) -> Result<instant_acme::Account, Failure> {
        let contact = self.settings.contact_uris();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let doing = format!("make an account at {}", self.settings.directory);
        let (account, credentials) = match &self.settings.eab {
            Some(external) => {
                let external = ExternalAccountKey::new(external.key_id().into(), external.key());
                self.create(&contact, Some(&external)).await
            }
            None => self.create_from_stored_key(&contact).await?,
        }
        .map_err(|error| self.failed(&doing, &error))?;

        let credentials = serde_json::to_value(&credentials).map_err(|error| Failure::later(error.to_string()))?;
        self.save(&credentials)?;
        self.log.say(Level::Notice, &self.settings.directory, &format!("made the account {}", account.id()));
        Ok(account)
    }

    async fn create(
        &self,
        contact: &[&str],
        external: Option<&ExternalAccountKey>,
    ) -> Result<(instant_acme::Account, AccountCredentials), Error> {
        let builder = instant_acme::Account::builder_with_http(Box::new(self.client.clone()));
        let new = NewAccount { contact, terms_of_service_agreed: true, only_return_existing: false };
        builder.create(&new, self.settings.directory.clone(), external).await
    }

    async fn create_from_stored_key(
        &self,
        contact: &[&str],
    ) -> Result<Result<(instant_acme::Account, AccountCredentials), Error>, Failure> {
        let key = self.key()?;
        let builder = instant_acme::Account::builder_with_http(Box::new(self.client.clone()));
        let made = builder.create_from_key(key, self.settings.directory.clone()).await;
        let (account, credentials) = match made {
            Ok(made) => made,
            // The library asks without a contact, which some CAs do not take.
            Err(Error::Api(problem)) if kind(&problem).ends_with("Contact") => {
                return Ok(self.create(contact, None).await);
            }
            Err(error) => return Ok(Err(error)),
        };
        if !contact.is_empty() {
            self.tell_contact(&account, contact).await;
        }
        Ok(Ok((account, credentials)))
    }

    /// The key of a new account: the one whose account was interrupted, or a new one, stored.
    fn key(&self) -> Result<(Key, PrivateKeyDer<'static>), Failure> {
        let pair = |der: Vec<u8>| {
            let key = Key::from_pkcs8_der(PrivatePkcs8KeyDer::from(der.as_slice())).ok()?;
            Some((key, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der))))
        };
        if let Some(der) = self.store.account_key() {
            if let Some(pair) = pair(der) {
                return Ok(pair);
            }
            self.store.set_account_key_aside("there is no ECDSA P-256 key in it");
        }
        let (key, der) = Key::generate_pkcs8().map_err(|error| Failure::later(error.to_string()))?;
        self.store.save_account_key(der.secret_pkcs8_der())?;
        Ok((key, PrivateKeyDer::Pkcs8(der)))
    }

    /// Tells the CA of contacts that were configured after the account was made.
    async fn update_contact(&self, account: &instant_acme::Account, stored: Value) {
        let contact = self.settings.contact_uris();
        if stored.get("contact") == Some(&json!(contact)) {
            return;
        }
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        self.tell_contact(account, &contact).await;
        // What the CA does not want to hear it is not told again at every renewal.
        let saved = stored.get("credentials").map(|credentials| self.save(credentials));
        if let Some(Err(failure)) = saved {
            self.log.say(Level::Warn, &self.settings.directory, &failure.text);
        }
    }

    async fn tell_contact(&self, account: &instant_acme::Account, contact: &[&str]) {
        if let Err(error) = account.update_contacts(contact).await {
            let failure = self.failed("take the contact of the account", &error);
            self.log.say(Level::Warn, &self.settings.directory, &failure.text);
        }
    }

    fn save(&self, credentials: &Value) -> Result<(), Failure> {
        let contact = self.settings.contact_uris();
        let value = json!({
            "directory": self.settings.directory,
            "contact": contact,
            "credentials": credentials,
        });
        Ok(self.store.save_account(&value)?)
    }

    fn failed(&self, doing: &str, error: &Error) -> Failure {
        Failure::of(doing, error, self.client.last_answer().as_ref(), self.now)
    }
}
