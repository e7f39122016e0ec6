"""Run every measurement of this folder, one after the other, and name the missed targets."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
missed = []
for script in (
    "house.py",
    "speed.py",
    "federated.py",
    "memory.py",
    "scale.py",
    "transport.py",
    "accuracy_measure.py",
    "ranges.py",
    "hindsight.py",
    "accuracy_pca.py",
    "units.py",
    "spiked_pca.py",
    "pca_peers.py",
    "accounting.py",
    "accuracy_signed.py",
    "online.py",
    "search.py",
    "counters.py",
    "threads.py",
    "private_facts.py",
    "planning.py",
    "samplers.py",
    "replays.py",
    "mutations.py",
    "injected_faults.py",
    "audits.py",
    "exact_losses.py",
    "matrix_tails.py",
    "hostile_files.py",
    "faults.py",
    "stream_kills.py",
    "resources.py",
    "bad_input.py",
    "evidence.py",
    "messy_files.py",
    "mixed_tables.py",
    "nist_crc.py",
    "coded_tables.py",
    "coded_gram.py",
    "linked_tables.py",
    "small_tables.py",
    "wide_tables.py",
    "near_columns.py",
    "rules.py",
    "spans.py",
    "strong_pairs.py",
    "wide_bounds.py",
    "pairs.py",
    "parities.py",
    "prior.py",
    "conditions.py",
    "intervals.py",
    "mixed_streams.py",
    "paper_study.py",
    "scale_tree.py",
    "command_line.py",
    "card.py",
):
    print(f"== {script}", flush=True)
    if subprocess.run([sys.executable, HERE / script], check=False).returncode:
        missed.append(script)
print("all targets met" if not missed else f"targets missed in {missed}")
sys.exit(bool(missed))
