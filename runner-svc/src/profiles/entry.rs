//! Cycles of one script's runs, as far as samples locate them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use antares_abi::Sha256Digest;
use antares_pool::job::Samples;
use antares_profile::{NodeId, Profile, Value, limits::NODES_MAX};

use crate::limits::{
    PROFILE_CLAIMS_MAX, PROFILE_NODES_MAX, PROFILE_RUN_NODES_MAX, PROFILE_SCRIPTS_MAX, PROFILE_TENANTS_MAX,
};

/// Owner of a profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProfileKey {
    pub(crate) tenant: Arc<str>,
    /// Digest of the ELF; none for transactions.
    pub(crate) script: Option<Sha256Digest>,
}

/// Runs, and where they spent their cycles.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) profile: Profile,
    pub(crate) runs: u64,
    /// Cycles counted as other, which samples of other runs may cover.
    unseen: u64,
    /// Claims of samples beyond their own runs that are not counted yet; oldest first.
    pub(crate) claims: VecDeque<(NodeId, u64)>,
}

/// Cycles of a run, and the samples that hit them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunCycles<'a> {
    /// None if no sample hit it.
    pub(crate) samples: Option<&'a Samples>,
    pub(crate) cycles: u64,
    /// Cycles that a sample could have hit.
    pub(crate) native_cycles: u64,
}

/// The samples of a run, decoded.
pub(crate) struct DecodedSamples {
    pub(crate) profile: Profile,
    claims: Profile,
    unseen: u64,
}

pub(crate) fn decoded(samples: &Samples) -> Option<DecodedSamples> {
    let mut profile = Profile::decode(&samples.profile).ok()?;
    let claims = Profile::decode(&samples.claims).ok()?;
    if profile.nodes().len() > PROFILE_RUN_NODES_MAX {
        profile.fold(PROFILE_RUN_NODES_MAX, &[]);
    }
    Some(DecodedSamples { profile, claims, unseen: samples.unseen_cycles })
}

/// Tenant for all runs without their own slot. No caller can have this name.
pub(crate) const OTHER_TENANTS: &str = "[other]";

/// The entry that counts a run of `key`. Beyond the limit of scripts, a tenant's runs count together. Beyond
/// the limit of tenants, whose names callers make up, all the others do.
pub(crate) fn entry_of<'a>(entries: &'a mut BTreeMap<ProfileKey, Entry>, key: &ProfileKey) -> &'a mut Entry {
    let mut key = key.clone();
    if !entries.contains_key(&key) && entries.len() >= PROFILE_SCRIPTS_MAX {
        key.script = None;
    }
    if !entries.contains_key(&key) && entries.len() >= PROFILE_SCRIPTS_MAX + PROFILE_TENANTS_MAX {
        key.tenant = OTHER_TENANTS.into();
    }
    entries.entry(key).or_insert_with(|| Entry::new(Profile::with_nodes_max(PROFILE_NODES_MAX)))
}

impl Entry {
    pub(crate) fn new(profile: Profile) -> Self {
        Self { profile, runs: 0, unseen: 0, claims: VecDeque::new() }
    }

    /// Adds a run, with its samples if any.
    pub(crate) fn add(&mut self, sampled: Option<&DecodedSamples>, run: RunCycles<'_>) {
        self.runs += 1;
        match sampled {
            Some(DecodedSamples { profile, claims, unseen }) => {
                self.evict_for_space(profile.nodes().len() + claims.nodes().len(), PROFILE_NODES_MAX);
                self.profile.merge(profile);
                self.unseen = self.unseen.saturating_add(*unseen);
                let nodes = self.profile.graft(None, claims);
                let claims = claims.nodes().iter().zip(nodes);
                self.claims.extend(claims.filter_map(|(node, id)| Some((id?, node.value.cycles))));
            }
            None => {
                self.profile.add_other(Value::cycles(run.cycles));
                // Inconsistent samples are ignored entirely.
                if run.samples.is_none() {
                    self.unseen = self.unseen.saturating_add(run.native_cycles.min(run.cycles));
                }
            }
        }
        self.settle();
    }

    /// Adds another entry of the same script's runs.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.runs = self.runs.saturating_add(other.runs);
        self.evict_for_space(other.profile.nodes().len(), NODES_MAX);
        let nodes = self.profile.graft(None, &other.profile);
        self.profile.merge(&other.profile);
        self.unseen = self.unseen.saturating_add(other.unseen);
        let moved = |(id, cycles): &(NodeId, u64)| Some(((*nodes.get(id.0 as usize)?)?, *cycles));
        self.claims.extend(other.claims.iter().filter_map(moved));
        self.settle();
    }

    /// Folds stacks to fit `more` within `nodes_max`.
    pub(crate) fn evict_for_space(&mut self, more: usize, nodes_max: usize) {
        if self.profile.nodes().len() + more <= nodes_max {
            return;
        }
        let held: Vec<NodeId> = self.claims.iter().map(|(id, _)| *id).collect();
        let places = self.profile.fold(nodes_max / 2, &held);
        self.claims = std::mem::take(&mut self.claims)
            .into_iter()
            .filter_map(|(id, cycles)| Some(((*places.get(id.0 as usize)?)?, cycles)))
            .collect();
    }

    /// Counts what samples claim, up to the unseen cycles. Each sample covers one period of its own run and
    /// of runs too short to be hit.
    fn settle(&mut self) {
        while let Some((id, claim)) = self.claims.front_mut() {
            let paid = self.unseen.min(*claim);
            self.profile.explain(*id, paid);
            self.unseen -= paid;
            *claim -= paid;
            if *claim > 0 {
                break;
            }
            self.claims.pop_front();
        }
        while self.claims.len() > PROFILE_CLAIMS_MAX {
            self.claims.pop_front();
        }
    }
}

/// One profile of all entries; none if there are none.
pub(crate) fn merged(scripts: BTreeMap<ProfileKey, Entry>) -> Option<Profile> {
    let mut entries = scripts.into_values();
    let mut all = entries.next()?;
    for mut entry in entries {
        all.evict_for_space(NODES_MAX / 2, NODES_MAX);
        entry.evict_for_space(NODES_MAX / 2, NODES_MAX);
        all.profile.merge(&entry.profile);
    }
    Some(all.profile.canonical())
}
