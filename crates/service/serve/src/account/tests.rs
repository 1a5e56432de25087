//! Quotas of tenants, and their owners.

use super::*;
use antares_config::{ConfigFile, Role};
use tonic_types::StatusExt as _;

fn accounts(sections: &str) -> Accounts {
    Accounts::new(&tenancy(sections), &Metrics::new())
}

fn tenancy(sections: &str) -> Tenancy {
    let tls =
        "[tls]\ncertificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n[[auth.rules]]\ncertificate = \"*\"\n";
    let file: ConfigFile = format!("{tls}{sections}").parse().unwrap();
    file.check(Role::Both, &[]).unwrap().tenancy
}

fn of(accounts: &Accounts, tenant: &str) -> Account {
    let headers = HeaderMap::from_iter([(TENANT.parse().unwrap(), tenant.parse().unwrap())]);
    accounts.of(Peer::UNKNOWN, &headers)
}

#[test]
fn one_tenant_s_use_is_not_another_s() {
    let accounts =
        accounts("[quotas]\ncalls_max = 2\nguest_cycles_per_second = 1000\nstored_bytes_max = 5\n");
    let (a, b) = (of(&accounts, "a"), of(&accounts, "b"));
    let held = [a.begin_call().unwrap(), of(&accounts, "a").begin_call().unwrap()];
    assert_eq!(a.begin_call().unwrap_err().reason(), "QUOTA");
    assert!(b.begin_call().is_ok());
    drop(held);
    assert!(a.begin_call().is_ok());
    a.ran(1, 5_000, Duration::ZERO);
    assert_eq!(of(&accounts, "a").begin_run().unwrap_err().reason(), "QUOTA");
    assert!(b.begin_run().is_ok());
    assert!(a.stored_too_much(3, 2).is_none());
    // Waiting does not free stored bytes.
    let is_worth_waiting = |fault: Fault| tonic::Status::from(fault).get_details_retry_info().is_some();
    assert!(!is_worth_waiting(a.stored_too_much(3, 3).unwrap()));
    assert!(is_worth_waiting(a.begin_run().unwrap_err()));
}

#[test]
fn few_runs_begin_on_a_quota_that_is_nearly_used_up() {
    let accounts = accounts("[quotas]\nguest_cycles_per_second = 1000\n");
    let a = of(&accounts, "a");
    a.ran(1, 1_000, Duration::ZERO);
    let begun = a.begin_run().unwrap();
    assert_eq!(of(&accounts, "a").begin_run().unwrap_err().reason(), "QUOTA");
    assert!(of(&accounts, "b").begin_run().is_ok());
    drop(begun);
    assert!(a.begin_run().is_ok());
}

#[test]
fn a_run_that_tells_no_cycles_is_charged_for_its_time() {
    let accounts = accounts("[quotas]\nguest_cycles_per_second = 1000000\n");
    let a = of(&accounts, "a");
    a.ran_for(Duration::from_millis(500), 10);
    assert!(a.begin_run().is_ok());
    a.ran_for(Duration::from_millis(500), u64::MAX);
    assert!(a.begin_run().is_err());
}

#[test]
fn times_are_coarse_for_tenants() {
    let usual = accounts("");
    let reported = |account: &Account| [0, 1, 100, 101, u64::MAX].map(|time| account.coarse_us(time));
    assert_eq!(reported(&of(&usual, "a")), [0, 100, 100, 200, u64::MAX]);
    assert_eq!(reported(&Account::nobody()), [0, 1, 100, 101, u64::MAX]);
    // Without authentication, only callers with a name count as tenants.
    let file: ConfigFile = "".parse().unwrap();
    let open = Accounts::new(&file.check(Role::Both, &[]).unwrap().tenancy, &Metrics::new());
    assert_eq!(of(&open, "a").coarse_us(1), 100);
    assert_eq!(open.of(Peer::UNKNOWN, &HeaderMap::new()).coarse_us(1), 1);
}

#[test]
fn labels_and_accounts_are_bounded() {
    let accounts = accounts("");
    for number in 0..METERED_MAX + 10 {
        of(&accounts, &format!("t{number}")).begin_call().unwrap();
    }
    assert!(accounts.known.lock().len() <= METERED_MAX);
    assert_eq!(accounts.labels.lock().len(), LABELS_MAX);
    assert_eq!(&*accounts.label("t0"), "t0");
    assert_eq!(&*accounts.label("late"), "other");
}

#[test]
fn keys_of_tenants_are_apart_where_they_are_to_be() {
    let (apart, salted) = (accounts(""), accounts("[tenants]\nisolation = \"code\"\n"));
    let shared = accounts("[tenants]\nisolation = \"none\"\n");
    let key = [7; 32];
    assert_ne!(of(&apart, "a").namespace(), of(&apart, "b").namespace());
    assert_eq!(of(&apart, "a").salt().apply(key), key);
    assert_ne!(of(&salted, "a").salt().apply(key), of(&salted, "b").salt().apply(key));
    assert_eq!(of(&shared, "a").namespace(), of(&shared, "b").namespace());
    assert!(!of(&shared, "a").is_isolated());
}

#[test]
fn other_quotas_take_force_for_whom_they_change() {
    let quotas =
        |a: u64| format!("[quotas]\ncalls_max = 1\n[[quotas.tenants]]\ntenant = \"a\"\ncalls_max = {a}\n");
    let accounts = accounts(&quotas(1));
    let held = [of(&accounts, "a").begin_call().unwrap(), of(&accounts, "b").begin_call().unwrap()];
    assert!(of(&accounts, "a").begin_call().is_err());
    accounts.set_tenancy(tenancy(&quotas(2)));
    let more = [of(&accounts, "a").begin_call().unwrap(), of(&accounts, "a").begin_call().unwrap()];
    assert!(of(&accounts, "a").begin_call().is_err() && of(&accounts, "b").begin_call().is_err());
    drop((held, more));
    assert!(of(&accounts, "b").begin_call().is_ok());
    accounts.set_tenancy(tenancy("[tenants]\nisolation = \"none\"\n"));
    assert!(!of(&accounts, "a").is_isolated());
}
