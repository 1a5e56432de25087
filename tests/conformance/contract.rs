//! Observable behaviour of system calls, loading and errors, compared with ckb-script statement by statement.

use antares_tests::{
    elf::{self, Segment},
    guests,
};
use bytes::Bytes;
use ckb_types::core::ScriptHashType;

use crate::verdicts::{check, check_within, is};

const V0: ScriptHashType = ScriptHashType::Data;
const V1: ScriptHashType = ScriptHashType::Data1;
const V2: ScriptHashType = ScriptHashType::Data2;

const EXIT_0: &str = "li a0,0\nli a7,93\necall\n";
const EXIT_A0: &str = "li a7,93\necall\n";

/// Runs a script with the C statements `body`; returns the error and the printed values.
#[track_caller]
fn run(body: &str, others: &[Bytes], hash_type: ScriptHashType) -> (Option<String>, Vec<u64>) {
    let script = guests::script("BODY", &[&format!("BODY={body}")]).unwrap();
    let (error, report) = check(&script, others, hash_type);
    let value = |line: &str| u64::from_str_radix(line.get(2..18)?, 16).ok();
    (error, report.groups[0].debug.iter().filter_map(value).collect())
}

/// As [`run`], for a script that exits with 0.
#[track_caller]
fn values(body: &str, others: &[Bytes], hash_type: ScriptHashType) -> Vec<u64> {
    let (error, values) = run(body, others, hash_type);
    assert_eq!(error, None, "{values:x?}");
    values
}

/// The error of a failing script.
#[track_caller]
fn error(body: &str, others: &[Bytes], hash_type: ScriptHashType) -> String {
    run(body, others, hash_type).0.expect("an error")
}

/// Assembles an ELF.
fn program(text: &str) -> Bytes {
    guests::assemble(&format!(".globl _start\n_start:\n{text}")).unwrap().into()
}

/// Assembles machine code.
fn code(text: &str) -> Vec<u8> {
    let elf = program(text);
    elf[elf::segments(&elf)[0].file.clone()].to_vec()
}

fn elf(entry: u64, segments: Vec<Segment>) -> Bytes {
    elf::file(entry, segments).into()
}

#[test]
fn exec_v2_answers_a_bad_source_place_or_index() {
    let body = "R(2043,0,77,0,0,0,0); R(2043,0,0x0200000000000003,0,0,0,0); R(2043,0,3,2,0,0,0); \
                R(2043,0,4,0,0,0,0); R(2043,0,3,1,0,0,0); R(2043,1ul<<32,3,0,0,0,0)";
    assert_eq!(values(body, &[], V2), [1; 6]);
    // An index in range with an absent cell.
    is(run("R(2043,99,3,0,0,0,0)", &[], V2).0, "SnapshotDataLoadError");
    assert_eq!(values("R(2043,99,3,0,0,0,0)", &[], V1), [1]);
    for call in ["R(2043,0,77,0,0,0,0)", "R(2043,0,3,2,0,0,0)"] {
        error(call, &[], V1);
    }
}

#[test]
fn an_index_above_u32_max_is_out_of_bound() {
    let body = "words[0]=9; R(2091,(u64)area,PAGE,0,64,1ul<<32,3); \
                R(2092,(u64)area,(u64)words,0,1ul<<32,3,0); print('w',words[0])";
    for version in [V1, V2] {
        assert_eq!(values(body, &[], version), [1, 1, 9]);
    }
    let code = "li a5,1\nslli a3,a5,32\nmv a4,a3\nli a5,3\nli a0,0x40000\nmv a1,a0\nli a7,2091\necall\n";
    let data = "li a5,1\nslli a3,a5,32\nli a4,3\nli a0,0x40000\nmv a1,a0\nli a2,0\nli a7,2092\necall\n";
    for text in [code, data] {
        is(check(&program(&format!("{text}{EXIT_A0}")), &[], V0).0, "error code 1 ");
    }
    let spawn = "R(2601,1ul<<32,3,0,0,(u64)words,0); R(2601,0,3,2,0,(u64)words,0)";
    assert_eq!(values(spawn, &[], V2), [1, 1]);
    error("R(2601,0,77,0,0,(u64)words,0)", &[], V2);
}

#[test]
fn bounds_of_exec_and_spawn() {
    let cell = program(EXIT_0);
    let (size, others) = (cell.len(), [cell.clone()]);
    let call = |bounds: &str| format!("R(2043,1,3,0,{bounds},0,0); return 9");
    let (at_end, behind) = (format!("{size}ul<<32"), format!("{}ul<<32", size + 5));
    let (whole, over) = (size.to_string(), (size + 1).to_string());
    for bounds in ["0", &whole] {
        for version in [V1, V2] {
            values(&call(bounds), &others, version);
        }
    }
    assert!(values(&call(&over), &others, V2).is_empty());
    for bounds in [&at_end, &behind] {
        error(&call(bounds), &others, V2);
    }
    for bounds in [&over, &at_end, &behind] {
        let (_, printed) = run(&call(bounds), &others, V1);
        assert_eq!(printed, [3]);
        let spawn = format!("words[0]=0; R(2601,1,3,0,{bounds},(u64)words,0)");
        assert_eq!(values(&spawn, &others, V2), [3]);
    }
}

#[test]
fn arguments_of_exec_v1_have_a_total() {
    // One argument: its bytes plus 8.
    let call = |bytes: u64| {
        format!(
            "for(u64 i=0;i<{bytes};i++)((volatile u8*)0x100000)[i]=97; \
             words[0]=0x100000; R(2043,1,3,0,0,1,(u64)words); return 9"
        )
    };
    let others = [program(EXIT_A0)];
    // Arguments too large only for the stack continue at the new entry, with 4 in a0.
    is(run(&call((1 << 20) - 8), &others, V1).0, "error code 4 ");
    assert!(error(&call((1 << 20) - 7), &others, V1).contains("TOOLONG"));
}

#[test]
fn registers_after_debug_and_exec() {
    let printed = values("static char hi[]=\"hi\"; print('p',(u64)hi); R(2177,(u64)hi,0,0,0,0,0)", &[], V2);
    assert_eq!(printed[0], printed[1]);
    for version in [V1, V2] {
        values("R(2043,1,3,0,0,0,0); return 9", &[program(EXIT_A0)], version);
    }
}

#[test]
fn loads_store_the_length_first() {
    for (number, more) in
        [(2051, "0,0,0"), (2052, "0,0,0"), (2061, "0,0,0"), (2062, "0,0,0"), (2092, "0,3,0")]
    {
        // A capacity of zero: only the length is written, even for an invalid buffer.
        let none = format!("words[0]=0; R({number},1ul<<40,(u64)words,0,{more}); print('l',words[0])");
        let [0, length] = values(&none, &[], V2)[..] else { panic!("{number}") };
        // The buffer overlaps its own length.
        let over = format!(
            "words[0]=16; R({number},(u64)words,(u64)words,0,{more}); print('l',words[0]); print('l',words[1]); \
             words[1]=30; R({number},(u64)words,(u64)words+8,3,{more}); print('l',words[1]); \
             words[0]=8; R({number},(u64)area,(u64)words,1ul<<50,{more}); print('l',words[0])"
        );
        let printed = values(&over, &[], V2);
        assert_ne!(printed[1], length, "{number}");
        assert_eq!(printed[6], 0, "{number}");
        error(&format!("words[0]=8; R({number},1ul<<40,(u64)words,0,{more})"), &[], V2);
        let on_code = format!("words[0]=8; R({number},(u64)script,(u64)words,0,{more})");
        is(run(&on_code, &[], V2).0, "MemWriteOnExecutablePage");
    }
}

#[test]
fn sizes_of_loaded_code() {
    let body = "R(2091,(u64)area,PAGE,0,0,0,3); R(2091,(u64)area,0,0,0,0,3); R(2091,(u64)area,0,0,64,0,3); \
                area[0]=1; R(2091,(u64)area,2*PAGE,0,64,0,3)";
    for version in [V1, V2] {
        assert_eq!(values(body, &[], version), [3, 3, 3, 0]);
    }
}

#[test]
fn what_a_refused_spawn_costs() {
    let body = "static u64 pid,fds[2]={99}; struct spawn q={0,0,&pid,fds}; u64 t,r; \
        t=cycles(); r=call(2601,99,3,0,0,(u64)&q,0); t=cycles()-t; print('r',r); print('t',t); \
        t=cycles(); r=call(2601,0,3,0,0x7fffffff,(u64)&q,0); t=cycles()-t; print('r',r); print('t',t); \
        t=cycles(); r=call(2601,0,3,0,0,(u64)&q,0); t=cycles()-t; print('r',r); print('t',t)";
    let printed = values(body, &[], V2);
    assert_eq!([printed[0], printed[2], printed[4]], [1, 3, 6]);
    assert!(printed[1] < 2000 && printed[3] < 2000 && printed[5] > 100_800, "{printed:?}");
}

#[test]
fn processes_see_what_is_theirs() {
    let inherited = "u64 p[2],f[4]={0},pid,n=1; if(argc){ u64 b[4]={5,6,7,8}; \
        R(2607,(u64)b,(u64)&n,0,0,0,0); print('n',n); print('b',b[0]); print('b',b[1]); return 0; } \
        for(int i=0;i<3;i++){call(2604,(u64)p,0,0,0,0,0); f[i]=p[0];} \
        static const char*a[1]={\"c\"}; print('s',spawn(1,a,&pid,f)); print('w',wait(pid))";
    let printed = values(inherited, &[], V2);
    assert_eq!(printed[..4], [0, 3, 2, 6], "{printed:x?}");
    // The first wait for an ended VM consumes the exit code.
    let waiters = "static const char*a[2]={\"c\",\"d\"}; u64 pid,q; if(argc==1){ for(volatile int i=0;i<9999;i++); return 3; } \
        if(argc==2){ print('c',wait(1)); return 0; } \
        print('s',spawn(1,a,&pid,0)); print('s',spawn(2,a,&q,0)); print('w',wait(1)); print('v',wait(1)); print('v',wait(1)); \
        print('v',wait(q)); print('v',wait(1))";
    let printed = values(waiters, &[], V2);
    assert_eq!(printed, [0, 3, 0, 0x500, 0x500, 0x500, 0, 0x500]);
}

#[test]
fn exec_v1_that_fails_goes_on() {
    let exec = "R(2043,1,3,0,0,1,(u64)words); return 9";
    let exec = &format!("words[0]=(u64)\"argument\"; {exec}");
    // Segments before the failing one are loaded, and the program counter is 0.
    let beyond = || Segment::whole(0x40_0000, 6, vec![1; 64]);
    let at_0 = elf(0x1_0000, vec![Segment::whole(0, 5, code(EXIT_0)), beyond()]);
    values(exec, &[at_0], V1);
    let at_0 = elf(0x1_0000, vec![Segment::whole(0, 5, code(EXIT_A0)), beyond()]);
    is(run(exec, &[at_0], V1).0, "error code 4 ");
    for bytes in [elf(0, vec![beyond()]), Bytes::from_static(b"nothing")] {
        is(run(exec, &[bytes], V1).0, "MemWriteOnExecutablePage");
    }
    // No argument can be written: the new program still starts, with 4 in a0.
    let stack = Segment::whole(0x3f_f000, 5, vec![1; 4096]);
    let program = elf(0x1_0000, vec![Segment::whole(0x1_0000, 5, code(EXIT_A0)), stack]);
    is(run(exec, &[program], V1).0, "error code 4 ");
}

#[test]
fn subtraction_with_borrow_ignores_an_operand() {
    // 5 - 9 borrows; the borrow is added 16 times, so that the exit code shows it.
    let with = |operand: &str| {
        let text = format!(
            "li a0,5\nli a1,9\nli a2,3\nj 1f\n.option norvc\n1:\nsub a1,a0,a1\nsltu a3,a0,{operand}\n\
             sub a0,a1,a2\nsltu a2,a1,a0\nor a1,a2,a3\nj 1f\n1:\nslli a1,a1,4\nadd a0,a1,zero\n{EXIT_A0}"
        );
        program(&text)
    };
    for version in [V1, V2] {
        for operand in ["a1", "a2", "a4", "zero"] {
            is(check(&with(operand), &[], version).0, "error code 16 ");
        }
    }
    // Without fusions the operand matters.
    assert_eq!(check(&with("zero"), &[], V0).0, None);
}

#[test]
fn what_is_loaded_beyond_the_size_in_memory() {
    for version in [V0, V1, V2] {
        for (at, is_there) in [("0x20400", true), ("0x20c00", true), ("0x21000", false)] {
            let text = code(&format!("li a1,{at}\nlbu a0,0(a1)\n{EXIT_A0}"));
            let data = Segment { memory_bytes: 0x800, ..Segment::whole(0x2_0000, 6, vec![3; 0x1800]) };
            let (error, _) =
                check(&elf(0x1_0000, vec![Segment::whole(0x1_0000, 5, text), data]), &[], version);
            assert_eq!(error.is_some_and(|error| error.contains("code 3 ")), is_there, "{at}");
        }
        // A segment covers the number of arguments.
        let text = code(&format!("ld a0,0(sp)\n{EXIT_A0}"));
        let stack = Segment::whole(0x3f_f000, 6, vec![5; 4096]);
        let (error, _) = check(&elf(0x1_0000, vec![Segment::whole(0x1_0000, 5, text), stack]), &[], version);
        // The stack of version 0 is at the very end of memory, where loads fail.
        is(error, if version == V0 { "MemOutOfBound" } else { "code 5 " });
    }
}

#[test]
fn hints_and_the_end_of_memory_in_version_0() {
    let nop = program(&format!(".half 0x0005\n{EXIT_0}"));
    is(check(&nop, &[], V0).0, "InvalidInstruction");
    let shifts = program(&format!(".half 0x8001\n.half 0x8401\n{EXIT_0}"));
    let called = program(&format!("li a0,0x3fffff\nsb zero,0(a0)\nli a7,2177\necall\n{EXIT_0}"));
    let loaded = program(&format!("li a1,0x3fffff\nlbu a0,0(a1)\n{EXIT_0}"));
    let error = check(&loaded, &[], V0).0;
    is(error, "MemOutOfBound");
    for version in [V0, V1, V2] {
        check(&shifts, &[], version);
        assert_eq!(check(&called, &[], version).0, None);
    }
    for version in [V1, V2] {
        assert_eq!(check(&nop, &[], version).0, None);
        assert_eq!(check(&loaded, &[], version).0, None);
    }
}

#[test]
fn loaded_code_after_a_resume() {
    let body = "if(argc)return wait_to_read(); R(2091,(u64)area,2*PAGE,0,64,1,3); \
        print('a',sum(area,2*PAGE)); be_put_aside(); print('b',sum(area,2*PAGE)); print('b',sum(area+PAGE,PAGE))";
    let cell = |bytes: usize| Bytes::from_iter((0..bytes).map(|at| (at % 251) as u8));
    let printed = values(body, &[cell(3 * 4096)], V2);
    assert_ne!(printed[1], printed[printed.len() - 2]);
    is(run(body, &[cell(5000)], V2).0, "MemPageUnalignedAccess");
    let stores = format!("{body}; area[PAGE]=1; print('c',area[PAGE])");
    is(run(&stores, &[cell(2 * 4096)], V2).0, "MemWriteOnExecutablePage");
    // If the cell ends at a page boundary, later pages are writable.
    assert_eq!(values(&stores, &[cell(4096)], V2).last(), Some(&1));
}

#[test]
fn a_later_instruction_fails_before_an_earlier_one() {
    for version in [V0, V1, V2] {
        for fault in ["sd a0,0(t0)", "ld a0,0(t1)"] {
            let text = format!("la t0,_start\nli t1,-64\n{fault}\nnop\n.half 0\n");
            is(check(&program(&text), &[], version).0, "InvalidInstruction");
            let text = format!("la t0,_start\nli t1,-64\n{fault}\nj 1f\n1:\n.half 0\n");
            assert!(!check(&program(&text), &[], version).0.unwrap().contains("InvalidInstruction"));
        }
    }
}

#[test]
fn stores_across_pages_and_odd_program_counters() {
    for version in [V0, V1, V2] {
        for at in ["0x10ffc", "0x11ffc", "0x10ff8"] {
            let text = code(&format!("li a1,{at}\nsd a1,0(a1)\n{EXIT_0}"));
            let segments = vec![
                Segment::whole(0x1_0000, 6, vec![1; 4096]),
                Segment::whole(0x1_1000, 5, text),
                Segment::whole(0x1_2000, 6, vec![1; 4096]),
            ];
            let (error, _) = check(&elf(0x1_1000, segments), &[], version);
            assert_eq!(error.is_some(), at != "0x10ff8");
        }
        // Odd addresses, up to the last bytes of a page.
        for at in [1, 0xff1, 0xff5, 0xff7, 0xff9] {
            let text = code(&format!("beqz zero,1f\nnop\n1:\n{EXIT_0}"));
            let bytes = [vec![1; at], text].concat();
            check(&elf(0x1_0000 + at as u64, vec![Segment::whole(0x1_0000, 5, bytes)]), &[], version);
        }
    }
}

#[test]
fn an_exit_code_stays_for_a_second_waiter() {
    let body = "static const char*a[2]={\"c\",\"d\"}; u64 p[2],f[2]={0},pid,q; if(argc==1)return wait_to_read(); \
        if(argc==2){ print('c',wait(1)); return 0; } \
        call(2604,(u64)p,0,0,0,0,0); f[0]=p[0]; spawn(1,a,&pid,f); spawn(2,a,&q,0); \
        words[0]=8; call(2605,p[1],(u64)area,(u64)words,0,0,0); \
        print('q',wait(q)); print('w',wait(1)); print('w',wait(1))";
    assert_eq!(values(body, &[], V2), [3, 0, 3, 0x500]);
}

#[test]
fn which_process_is_put_aside() {
    // Loaded code shows whether its VM was suspended: then more of the cell follows the 64 bytes.
    let body = "u64 pid,q[2],p[4][2],f[2]={0}; static const char*a[1]={\"c\"}; \
        call(2091,(u64)area,PAGE,0,64,1,3); u64 b=sum(area,PAGE); \
        if(argc){ wait_to_read(); print('k',sum(area,PAGE)==b); return 0; } \
        for(int i=0;i<4;i++){ call(2604,(u64)p[i],0,0,0,0,0); f[0]=p[i][0]; spawn(1,a,&pid,f); } \
        print('k',sum(area,PAGE)==b); \
        for(int i=0;i<4;i++){ words[0]=8; call(2605,p[i][1],(u64)words+64,(u64)words,0,0,0); print('w',wait(1+i)); }";
    let cell = Bytes::from_iter((0..8192_u32).map(|at| (at % 251) as u8));
    // The spawner was suspended for the first child, and the first child for the second.
    assert_eq!(values(body, &[cell], V2), [0, 0, 0, 0, 0, 1, 0, 1, 0]);
}

#[test]
fn the_limit_of_cycles_comes_between_decoding_and_faults() {
    let fault = program("li t1,-64\nld a0,0(t1)\nnop\nnop\nnop\nj 1f\n1:\nnop\n");
    let invalid = program("li t1,-64\nld a0,0(t1)\nnop\nnop\nnop\n.half 0\n");
    for version in [V0, V1, V2] {
        let kind = |program: &Bytes, cycles| {
            let error = check_within(program, &[], version, cycles).0.expect("an error");
            let names = ["ExceededMaximumCycles", "MemOutOfBound", "InvalidInstruction"];
            names.iter().position(|name| error.contains(name)).unwrap()
        };
        let kinds: Vec<_> = (0..24).map(|cycles| (kind(&fault, cycles), kind(&invalid, cycles))).collect();
        // The whole trace takes 10 cycles.
        assert_eq!(kinds.iter().filter(|kinds| **kinds == (0, 2)).count(), 10, "{kinds:?}");
        assert_eq!((kinds[0], kinds[23]), ((0, 0), (1, 2)));
    }
}

#[test]
fn odd_program_counters_at_the_end_of_a_page() {
    for version in [V0, V1, V2] {
        for (at, next_flags) in [(0xffa, 6), (0xffc, 6), (0xffc, 5), (0xffe, 6), (0xffe, 5)] {
            let text = code(&format!(".space 0xf00\n1:\n{EXIT_0}.org {at}\nc.j 1b\n.space 64\n"));
            let mut bytes = [vec![1], text].concat();
            let next = bytes.split_off(4096);
            let segments =
                vec![Segment::whole(0x1_0000, 5, bytes), Segment::whole(0x1_1000, next_flags, next)];
            let (error, _) = check(&elf(0x1_0001 + at, segments), &[], version);
            let needs_next = at >= 0xffc;
            assert_eq!(error.is_some(), needs_next && next_flags == 6, "{at:x}: {error:?}");
        }
    }
}

#[test]
fn reads_and_writes_look_at_the_length_first() {
    // A read on a write end, a write on a read end, and an invalid descriptor: the length is loaded first.
    let calls = "u64 p[2]; call(2604,(u64)p,0,0,0,0,0); words[0]=8; R(2606,p[1],(u64)area,(u64)words,0,0,0); \
        R(2605,p[0],(u64)area,(u64)words,0,0,0); R(2606,99,(u64)area,(u64)words,0,0,0)";
    let printed = values(calls, &[], V2);
    assert_eq!(printed, [6; 3]);
    for (number, end) in [(2606, 1), (2605, 0)] {
        let call =
            format!("u64 p[2]; call(2604,(u64)p,0,0,0,0,0); R({number},p[{end}],(u64)area,1ul<<40,0,0,0)");
        is(run(&call, &[], V2).0, "MemOutOfBound");
    }
}
