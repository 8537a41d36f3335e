//! `larder_acme_account` and `larder_acme`: the account, and the certificates to order.

use larder_acme::{Account, Challenge, ExternalAccount, KeyType, Order};
use larder_conf::model::{self, AcmeChallenge, AcmeKeyType};

use crate::acme::Plan;
use crate::material::Material;

use super::{Builder, tls};

/// The order of each server.
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

/// The plan for `orders`; `None` if there are none or something is wrong, which is reported.
pub(super) fn plan(
    builder: &mut Builder,
    account: Option<&model::AcmeAccount>,
    orders: Vec<Option<Order>>,
    material: &Material,
) -> Option<Plan> {
    let mut distinct: Vec<Order> = Vec::new();
    for order in orders.into_iter().flatten() {
        match distinct.iter_mut().find(|known| known.names() == order.names()) {
            // Servers that share a certificate accept either challenge for its names.
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
        // A server that listens with TLS only would lose time with the other challenge, and one of a few tries an hour.
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
        // The ACME thread would notice too, but only when it runs.
        tls::authorities(builder, Some(file), "trusted certificate", material)?;
        made.trusted = Some(tls::read(builder, file, "trusted certificate", material)?);
    }
    Some(made)
}
