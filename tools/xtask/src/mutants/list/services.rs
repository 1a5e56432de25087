//! Mutants of the services and the command line, each with the one test that must kill it. The numbers count
//! what a test of the whole by outsiders had found.

use super::{Campaign, Mutant};

const fn service(
    name: &'static str,
    file: &'static str,
    [from, to]: [&'static str; 2],
    test: [&'static str; 2],
) -> Mutant {
    Mutant { name, file, from, to, campaign: Campaign::Test(test) }
}

const BYTES: &str = "crates/service/serve/src/layers/body_budget.rs";
const CONNECTIONS: &str = "crates/service/serve/src/connections.rs";
const ACCOUNT: &str = "cache/src/account.rs";

/// Admission: no client may stop another.
pub(super) const ADMITTED: [Mutant; 13] = [
    service(
        "service-1-no-budget-for-requests",
        BYTES,
        [
            "Budget::new(listen.request_bytes_max, listen.request_bytes_per_peer_max)",
            "Budget::new(u64::MAX, u64::MAX)",
        ],
        ["scenarios", "admission::half_sent_requests_are_held_within_a_budget"],
    ),
    service(
        "service-2-one-peer-takes-all-places",
        "crates/service/serve/src/budget.rs",
        ["        if held > self.share_max {", "        if held > self.max {"],
        ["lib", "a_holder_has_its_share_and_others_the_reserve"],
    ),
    service(
        "service-2-no-reserve",
        "crates/service/serve/src/budget.rs",
        ["total > open_max(self.max) && !is_little", "total > self.max && !is_little"],
        ["lib", "a_holder_has_its_share_and_others_the_reserve"],
    ),
    service(
        "service-3-idle-connections-keep-their-places",
        CONNECTIONS,
        [
            "        link.room_wanted.notify_one();\n        self.remove(&link);\n        true",
            "        drop(link);\n        false",
        ],
        ["lib", "a_newcomer_gets_the_place_of_who_has_most_and_does_least"],
    ),
    service(
        "service-3-one-peer-has-all-connections",
        CONNECTIONS,
        ["own >= self.per_peer_max;", "own >= self.max;"],
        ["lib", "a_peer_has_its_share"],
    ),
    service(
        "service-4-nobody-pays-first",
        ACCOUNT,
        [
            "(surplus > 0).then_some((owner, surplus.min(held)))",
            "(surplus > bytes).then_some((owner, surplus.min(held)))",
        ],
        ["policy", "one_owner_that_stores_much_pushes_out_its_own"],
    ),
    service(
        "service-6-no-bound-on-ready-files",
        "runner-svc/src/artifacts/ready.rs",
        [
            "state.bytes > self.bytes_max || state.entries.len() > self.entries_max",
            "state.bytes > self.bytes_max",
        ],
        ["lib", "ready::tests::small_files_are_few"],
    ),
    service(
        "service-6-small-files-cost-nothing",
        "runner-svc/src/artifacts/ready.rs",
        ["sealed.len().next_multiple_of(PAGE_BYTES) + FILE_BYTES", "sealed.len()"],
        ["lib", "ready::tests::bytes_are_counted_once_and_given_back"],
    ),
    service(
        "service-6-too-few-files-are-enough",
        "crates/service/serve/src/files.rs",
        ["    if is_enough(allowed) {", "    if is_enough(allowed) || needed > 0 {"],
        ["scenarios", "admission::a_server_that_may_open_too_few_files_does_not_start"],
    ),
    service(
        "service-6-invented-tenants-grow",
        "runner-svc/src/profiles/entry.rs",
        ["        key.tenant = OTHER_TENANTS.into();\n", ""],
        ["lib", "invented_tenants_take_bounded_room_and_no_run_is_lost"],
    ),
    service(
        "service-6-workers-talk-without-bound",
        "crates/runtime/pool/src/verdict.rs",
        [" || self.debug().map(Lines::count).sum::<usize>() > DEBUG_LINES_MAX", ""],
        ["escapes", "more_lines_than_there_may_be_are_not_taken"],
    ),
    service(
        "service-7-callers-mistakes-are-ours",
        "crates/service/serve/src/status.rs",
        [
            "filter(|status| status.code() == Code::Internal)?;",
            "filter(|status| status.code() == Code::Ok)?;",
        ],
        ["scenarios", "wire::messages_that_lie_about_themselves_have_a_status"],
    ),
    service(
        "service-7-a-stopped-worker-is-waited-for",
        "crates/runtime/pool/src/call.rs",
        [
            "const TAKEN_WITHIN: Duration = Duration::from_secs(1);",
            "const TAKEN_WITHIN: Duration = Duration::from_secs(3_600);",
        ],
        ["reuse", "a_worker_that_was_stopped_between_jobs_is_replaced_and_costs_nobody_an_answer"],
    ),
];

/// Profiles and signals that tell the truth.
pub(super) const TOLD: [Mutant; 7] = [
    service(
        "service-8-equal-runs-have-equal-samples",
        "runner-svc/src/execute/sampling.rs",
        [
            "KEYS.hash_one(RUNS.fetch_add(1, Ordering::Relaxed))",
            "KEYS.hash_one(RUNS.fetch_add(0, Ordering::Relaxed))",
        ],
        ["scenarios", "fleet::profiles_of_equal_runs_converge"],
    ),
    service(
        "service-8-equal-transactions-have-equal-samples",
        "runner-svc/src/verify/attempt.rs",
        ["order.sample_salt.unwrap_or_else(next_salt)", "order.sample_salt.unwrap_or_default()"],
        ["scenarios", "fleet::the_profile_of_a_repeated_transaction_converges"],
    ),
    service(
        "service-9-details-are-not-in-reflection",
        "crates/service/serve/src/server.rs",
        ["                .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)\n", ""],
        ["scenarios", "strangers::grpcurl_lists_describes_and_runs"],
    ),
    service(
        "service-10-a-store-that-is-gone-is-ready",
        "cache/src/room.rs",
        ["if !self.lock.is_there(&self.config.dir) {", "if false && !self.lock.is_there(&self.config.dir) {"],
        ["policy", "a_directory_that_is_gone_is_told"],
    ),
    service(
        "service-10-one-damaged-entry-ends-salvage",
        "cache/src/salvage.rs",
        [
            "let Some(bytes) = remains.read(id, &manifest, config.entry_bytes_max) else { continue };",
            "let Some(bytes) = remains.read(id, &manifest, config.entry_bytes_max) else { break };",
        ],
        ["damage", "flipped_bytes_in_a_closed_store_cost_what_they_hit"],
    ),
    service(
        "service-11-failed-calls-have-no-reason",
        "crates/service/serve/src/layers/trace.rs",
        [
            "tracing::info!(target: TARGET, elapsed_us, code, reason, \"call done\")",
            "tracing::info!(target: TARGET, elapsed_us, code, \"call done\")",
        ],
        ["serve", "failed_calls_are_logged_with_their_particulars"],
    ),
    service(
        "service-11-buckets-name-no-trace",
        "crates/service/serve/src/openmetrics.rs",
        ["buckets[bucket] = Some(Exemplar", "buckets[0] = Some(Exemplar"],
        ["lib", "every_kind_has_its_form_and_buckets_have_their_last_trace"],
    ),
];

/// The author's first second.
pub(super) const AUTHORED: [Mutant; 10] = [
    service(
        "service-12-other-machines-have-no-name",
        "cli/src/input.rs",
        ["is an ELF file for", "is a file for"],
        ["contract", "an_elf_of_another_machine_is_named"],
    ),
    service(
        "service-13-nothing-is-compiled-behind",
        "cli/src/behind.rs",
        [
            "    if wanted.is_empty() || kept.turn().is_none() {",
            "    if !wanted.is_empty() || kept.turn().is_none() {",
        ],
        ["kept", "the_first_run_has_the_baseline_and_later_ones_the_full_code"],
    ),
    service(
        "service-14-users-in-addresses",
        "cli/src/address.rs",
        ["    if authority.as_str().contains('@') {", "    if authority.as_str().contains('#') {"],
        ["bins", "addresses_are_understood_or_refused"],
    ),
    service(
        "service-15-pins-do-not-hold",
        ACCOUNT,
        ["!self.leases.contains_key(id) && !self.pinned.contains(id);", "!self.leases.contains_key(id);"],
        ["policy", "what_is_pinned_stays_across_eviction_rebuild_and_restart_and_what_is_removed_is_gone"],
    ),
    service(
        "service-16-stripped-functions-have-no-names",
        "crates/insight/profile-view/src/symbols.rs",
        [
            "let about = recognised(elf, &program);",
            "let about: std::collections::BTreeMap<u64, String> = Default::default(); let _ = recognised;",
        ],
        ["conformance", "insights::"],
    ),
    service(
        "service-17-refusals-are-no-answers",
        "cli/src/run.rs",
        ["    if refusal.is_of_the_vm() {", "    if refusal.is_of_the_vm() && request.elf.is_empty() {"],
        ["contract", "a_version_without_such_instructions_is_the_vms_error_in_every_tier"],
    ),
    service(
        "what-leaves-native-code-is-not-said",
        "cli/src/report.rs",
        ["\"unsupported\" if isa.has(Isa::A)", "\"unsupported\" if !isa.has(Isa::A)"],
        ["contract", "what_leaves_native_code_in_every_run_is_said"],
    ),
    service(
        "service-18-high-half-and-low-half-apart",
        "crates/insight/insights/src/fusions.rs",
        ["(Op::Mulh | Op::Mulhu | Op::Mulhsu, Op::Mul) => Some(Rule::UnfusedWideMultiply),", ""],
        ["conformance", "insights::"],
    ),
    service(
        "service-19-the-script-stays-at-home",
        "crates/service/client/src/bring.rs",
        ["Lack::Source => Some(Ok(Naming::Inline)),", "Lack::Source => Some(Ok(Naming::Digest)),"],
        ["serve", "a_script_goes_along_where_the_runner_has_no_compiler"],
    ),
    service(
        "service-19-services-are-not-told-apart",
        "cli/src/status.rs",
        ["_ if status.code() == Code::Unimplemented => Self::NoSuchCall,", ""],
        ["serve", "a_server_of_another_kind_is_told_so"],
    ),
];

const EARLY_RUN: &str = "crates/service/race/src/early_run.rs";

/// First runs and first verifications, beside their compile.
pub(super) const MEANWHILE: [Mutant; 4] = [
    service(
        "meanwhile-first-runs-wait",
        "crates/service/race/src/head_start.rs",
        ["stored.is_none() && self.begins", "stored.is_some() && self.begins"],
        ["scenarios", "meanwhile::who_comes_first_has_the_interpreter_s_answer_and_the_others_native_code"],
    ),
    service(
        "meanwhile-first-verifications-wait",
        "runner-svc/src/verify/programs.rs",
        ["(tier != Tier::Native).then_some(start)", "(tier == Tier::Interpreter).then_some(start)"],
        ["scenarios", "meanwhile::a_first_verification_does_not_wait_for_a_long_compile"],
    ),
    service(
        "meanwhile-native-code-comes-for-nothing",
        EARLY_RUN,
        ["if compile.there() > had {", "if compile.there() > had + 9 {"],
        ["scenarios", "meanwhile::native_code_that_is_there_before_a_verification_ends_has_it"],
    ),
    service(
        "meanwhile-begun-verifications-begin-again",
        EARLY_RUN,
        ["if compile.there() > had {", "if compile.there() >= had {"],
        ["scenarios", "meanwhile::a_verification_that_has_begun_goes_on_where_the_compile_is_refused"],
    ),
];

/// Layers that make a wrong compiler, or a neighbour who measures, cost less.
pub(super) const CONTAINED: [Mutant; 5] = [
    service(
        "contained-tenants-are-told-exact-times",
        "runner-svc/src/grpc/convert.rs",
        ["account.coarse_us(report.run_us))", "report.run_us)"],
        ["grpc", "a_tenant_is_told_coarse_times"],
    ),
    service(
        "contained-keys-without-the-patch-of-llvm",
        "crates/engine/abi/build.rs",
        ["version.trim());", "version.trim().rsplit_once('.').map_or(\"\", |(minor, _)| minor));"],
        ["lib", "the_version_of_llvm_is_whole"],
    ),
    service(
        "contained-speculation-is-limited-by-nobody",
        "crates/runtime/sandbox/src/speculation.rs",
        ["_ if was_set => (false,", "_ if was_set => (true,"],
        ["lib", "only_what_the_kernel_confirms_counts"],
    ),
    service(
        "contained-lines-where-anybody-looks",
        "crates/runtime/pool/src/channel.rs",
        ["usize::from_le_bytes(random) % CHILD_ADDRESSES.len();", "usize::from_le_bytes(random) % 1;"],
        ["lib", "a_child_has_its_channel_where_nobody_else_knows"],
    ),
    service(
        "contained-the-verifier-is-not-heard",
        "crates/engine/compiler/src/lib.rs",
        ["refused(&optimized).len() as u64;", "0 * refused(&optimized).len() as u64;"],
        ["scenarios", "contained::what_the_optimiser_only_claims_is_compiled_without_it"],
    ),
];
