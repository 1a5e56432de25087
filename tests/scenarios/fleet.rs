//! Sampling of a run is reproducible.

use antares_profile_view::read_archive;
use antares_proto::v1::{self, Tier};
use antares_tests::guests;

use crate::client::{of_tenant, serving, stored};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_sampled_as_its_answer_says() {
    let (_data, _server, mut client) = serving("[runner]\nsample_cycles = 10000\n").await;
    let elf = guests::bytes("secp256k1-imc").unwrap();
    client.upload(&elf).await.unwrap();
    let mut profiles = Vec::new();
    let mut salt = None;
    for tenant in ["one", "two", "three"] {
        let mut request = of_tenant(tenant, stored(&elf, &["-", "1"], Tier::Native));
        // The second run samples like the first; the third one is random.
        request.get_mut().sample_salt = salt.filter(|_| tenant == "two");
        let answer = client.execute(request).await.unwrap();
        salt = salt.or(answer.sample_salt);
        assert_eq!(answer.sample_salt == salt, tenant != "three");
        let wanted = v1::GetProfileRequest { selection: None, format: Some("antares".to_owned()) };
        let seen = client.profiles.get_profile(of_tenant(tenant, wanted)).await.unwrap().into_inner();
        profiles.push(read_archive(&seen.profile).unwrap().0);
    }
    // Native code from the baseline or the full compile: equal stacks, but possibly different metered blocks.
    assert_eq!(profiles[0].sum(), profiles[1].sum());
    assert_eq!(profiles[0], profiles[1]);
    assert_ne!(profiles[0], profiles[2]);
}
