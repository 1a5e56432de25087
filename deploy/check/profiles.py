"""Has others read the profiles of a running service: a real OpenTelemetry collector what is pushed over OTLP, the real pprof
what is pulled, and `antares profile --server` what the service answers.

Usage: profiles.py ANTARES      the binary; collector and pprof come from tools.sh

A script that counts 67 million cycles in native code runs three times. What arrives at the collector, and what pprof reads,
must add up to the cycles that the callers were told.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import types

import dashboard
import drill
from waiting import free_port, wait

RUNS = 3
DEADLINE_S = 60
STARTS = 3
# li t0, 2^25; then t0 -= 1 until it is zero; exit.
COUNTS = [0x020002B7, 0xFFF28293, 0xFE029EE3, *drill.EXIT]
COLLECTOR = """
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:PORT"}}}}
exporters: {debug: {verbosity: detailed}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [debug]}
    profiles: {receivers: [otlp], exporters: [debug]}
"""


def tool(name):
    script = pathlib.Path(__file__).resolve().parent / "tools.sh"
    return subprocess.run([str(script), name], check=True, capture_output=True, text=True).stdout.strip()


def sum_of_collector(log):
    """Cycles in all profiles that the collector has written to its log."""
    total = 0
    for profile in re.split(r"\n +Profile #|\nProfile #", log.read_text(encoding="utf-8"))[1:]:
        if "instructions" in profile.split("Sample #")[0] and "cycles" not in profile.split("Sample #")[0]:
            continue
        for values in re.findall(r"Values: \[([-0-9, ]*)\]", profile):
            total += sum(int(value) for value in values.replace(",", " ").split())
    return total


def run(antares, server, script):
    command = [antares, "run", "--json", "--tier", "native", "--server", server, str(script)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["cycles"]


def pprof_sum(pprof, *source):
    """What pprof says that a profile adds up to, and its table."""
    command = [pprof, "-top", "-nodecount=5", "-sample_index=cycles", *map(str, source)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    raw = subprocess.run([pprof, "-raw", *map(str, source)], check=True, capture_output=True, text=True).stdout
    samples = raw.split("Samples:")[1].split("Locations")[0].splitlines()[2:]
    return sum(int(line.split()[0]) for line in samples if re.match(r"\s*\d+\s+\d*", line)), text


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    findings = dashboard.Findings()
    for start in range(STARTS):
        try:
            measure(pathlib.Path(sys.argv[1]), findings)
            break
        except RuntimeError as error:
            # It ended: another process may have taken one of its ports.
            print(f"start {start + 1}: {error}", file=sys.stderr)
    else:
        findings.expect(False, "antares serve does not start")
    for text in findings.wrong:
        print(f"WRONG: {text}")
    print(f"profiles: {findings.checked} checks, {len(findings.wrong)} wrong")
    sys.exit(1 if findings.wrong else 0)


def measure(antares, findings):
    """Runs the script on a server with its receivers, and compares what all of them have."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="antares-profiles-"))
    otlp = free_port()
    (folder / "collector.yaml").write_text(COLLECTOR.replace("PORT", str(otlp)), encoding="utf-8")
    config = f'[cache]\ndir = "{folder}/cache"\nallow_any_filesystem = true\n[trace]\nendpoint = "http://127.0.0.1:{otlp}"\n[profile_push]\notlp = true\n'
    place = types.SimpleNamespace(binaries=antares.parent, folder=folder)
    server = drill.Service(place, "antares", [antares.name, "serve"], config)
    script = folder / "counts.elf"
    script.write_bytes(drill.elf_of(COUNTS))
    log = folder / "collector.log"
    command = [tool("collector"), "--config", f"file:{folder}/collector.yaml", "--feature-gates", "service.profilesSupport"]
    with log.open("w", encoding="utf-8") as file:
        collector = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        server.start()
        check(findings, antares, f"127.0.0.1:{server.grpc}", f"127.0.0.1:{server.metrics}", script, log)
    finally:
        server.stop()
        collector.terminate()
        collector.wait()
        shutil.rmtree(folder, ignore_errors=True)


def check(findings, antares, server, metrics, script, log):
    told = sum(run(antares, server, script) for _ in range(RUNS))
    pprof = tool("pprof")
    try:
        wait(lambda: sum_of_collector(log) >= told, DEADLINE_S, f"the collector has not {told} cycles")
    except TimeoutError as error:
        print(log.read_text(encoding="utf-8")[-3000:], file=sys.stderr)
        findings.expect(False, str(error))
    time.sleep(1)
    collected = sum_of_collector(log)
    findings.expect(collected == told, f"the collector got {collected} cycles of {told}")
    text = log.read_text(encoding="utf-8")
    findings.expect("antares-guest" in text, "the collector does not name the service")
    print(f"collector: {collected} cycles")

    pulled, table = pprof_sum(pprof, f"http://{metrics}/debug/pprof/guest?seconds=600")
    findings.expect(pulled == told, f"pprof reads {pulled} cycles of {told}")
    print(table)

    seen = log.parent / "seen.folded"
    command = [antares, "profile", str(script), "--server", server, "-o", str(seen)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = seen.read_text(encoding="utf-8").splitlines() if done.returncode == 0 else []
    total = sum(int(line.rsplit(" ", 1)[1]) for line in lines)
    findings.expect(total == told, f"antares profile --server: {total} cycles of {told}: {done.stderr}")
    print(done.stdout)


if __name__ == "__main__":
    main()
