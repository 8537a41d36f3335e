//! `larder_acme_account` and `larder_acme`: as whom to order, and what.

use larder_acme::{Account, Challenge, ExternalAccount, KeyType, Order};
use larder_conf::model::{self, AcmeChallenge, AcmeKeyType};

use crate::acme::Plan;
use crate::material::Material;

use super::{Builder, tls};

/// What each server orders.
pub(super) fn orders(builder: &mut Builder, http: &model::Http) -> Vec<Option<Order>> {
    let speaks_plainly = http.servers.iter().flat_map(|server| &server.listens).any(|listen| !listen.ssl);
    let mut one = |wanted: &model::AcmeOrder| {
        let names = wanted.names.iter().map(|name| &name.value);
        Order::new(names, challenge(wanted.challenge, speaks_plainly))
            .map_err(|error| builder.error(error.to_string(), wanted.span))
            .ok()
    };
    http.servers.iter().map(|server| server.acme.as_ref().and_then(&mut one)).collect()
}

/// What has to be done for `orders`; `None` where there are none, or when something is wrong, which is told.
pub(super) fn plan(
    builder: &mut Builder,
    account: Option<&model::AcmeAccount>,
    orders: Vec<Option<Order>>,
    material: &Material,
) -> Option<Plan> {
    let mut distinct: Vec<Order> = Vec::new();
    for order in orders.into_iter().flatten() {
        match distinct.iter_mut().find(|known| known.names() == order.names()) {
            // Servers that share a certificate may show in either of their ways that its names are ours.
            Some(known) if known.challenge() != order.challenge() => {
                *known = Order::new(known.names(), Challenge::Either).expect("its names were an order's before");
            }
            Some(_) => {}
            None => distinct.push(order),
        }
    }
    let account = account.filter(|_| !distinct.is_empty())?;
    Some(Plan { account: self::account(builder, account, material)?, orders: distinct })
}

fn challenge(challenge: AcmeChallenge, speaks_plainly: bool) -> Challenge {
    match challenge {
        AcmeChallenge::Either if speaks_plainly => Challenge::Either,
        // Who listens by TLS alone would only lose time, and one of a few tries an hour, with the other.
        AcmeChallenge::Either => Challenge::TlsAlpn01,
        AcmeChallenge::Http01 => Challenge::Http01,
        AcmeChallenge::TlsAlpn01 => Challenge::TlsAlpn01,
    }
}

fn account(builder: &mut Builder, account: &model::AcmeAccount, material: &Material) -> Option<Account> {
    let mut made = Account::new(&account.state.value);
    made.directory.clone_from(&account.directory.value);
    made.contact.clone_from(&account.emails);
    made.key_type = match account.key_type {
        AcmeKeyType::EcdsaP256 => KeyType::EcdsaP256,
        AcmeKeyType::EcdsaP384 => KeyType::EcdsaP384,
        AcmeKeyType::Rsa2048 => KeyType::Rsa2048,
        AcmeKeyType::Rsa3072 => KeyType::Rsa3072,
        AcmeKeyType::Rsa4096 => KeyType::Rsa4096,
    };
    made.profile = account.profile.as_ref().map(|profile| profile.value.clone());
    if let Some(eab) = &account.eab {
        match ExternalAccount::new(&eab.kid, &eab.key.0) {
            Ok(external) => made.eab = Some(external),
            Err(error) => {
                builder.error(error.to_string(), account.span);
                return None;
            }
        }
    }
    if let Some(file) = &account.trusted_certificate {
        // The thread would find out too, but only when it is under way.
        tls::authorities(builder, Some(file), "trusted certificate", material)?;
        made.trusted = Some(tls::read(builder, file, "trusted certificate", material)?);
    }
    Some(made)
}
