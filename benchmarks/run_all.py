"""Run the measurements of this folder one after the other, and name the missed targets. All of them take many hours on two cores.

python benchmarks/run_all.py [--only QUESTION|SCRIPT ...] [--list]
"""

import argparse
import ast
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = {
    "code": ["house.py"],
    "speed": ["speed.py", "memory.py", "scale.py", "scale_tree.py", "federated.py", "command_line.py", "card.py"],
    "measures": ["transport.py", "accuracy_measure.py", "ranges.py", "hindsight.py", "accuracy_signed.py", "units.py"],
    "components": ["accuracy_pca.py", "spiked_pca.py", "pca_peers.py"],
    "streams": ["online.py", "counters.py", "mixed_streams.py"],
    "choices": ["search.py", "fit_to_error.py", "planning.py", "private_facts.py"],
    "privacy": ["accounting.py", "samplers.py", "replays.py", "exact_losses.py", "matrix_tails.py", "audits.py", "evidence.py"],
    "tests": ["mutations.py", "injected_faults.py"],
    "robustness": ["threads.py", "hostile_files.py", "faults.py", "stream_kills.py", "resources.py", "bad_input.py", "messy_files.py"],
    "tables": ["mixed_tables.py", "nist_crc.py", "coded_tables.py", "coded_gram.py", "small_tables.py", "wide_tables.py"],
    "structure": ["near_columns.py", "rules.py", "spans.py", "strong_pairs.py", "wide_bounds.py", "pairs.py", "parities.py"],
    "answers": ["prior.py", "conditions.py", "intervals.py", "weights.py"],
    "linked": ["linked_tables.py", "areas.py"],
    "papers": ["papers/zhang_2024.py"],
}


def heading(script):
    """Return the first line of what a script says of itself."""
    return (ast.get_docstring(ast.parse((HERE / script).read_text(encoding="utf-8"))) or "").partition("\n")[0]


def main():
    every = [script for scripts in SCRIPTS.values() for script in scripts]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*SCRIPTS, *every], metavar="NAME", help=f"{', '.join(SCRIPTS)}, or a script")
    parser.add_argument("--list", action="store_true", help="print the scripts and what each measures, and run nothing")
    arguments = parser.parse_args()
    missed = []
    for question, script in ((question, script) for question, scripts in SCRIPTS.items() for script in scripts):
        if arguments.only and not {question, script} & set(arguments.only):
            continue
        print(f"== {question}: {script}" + f"\n   {heading(script)}" * arguments.list, flush=True)
        if not arguments.list and subprocess.run([sys.executable, HERE / script], check=False).returncode:
            missed.append(script)
    if not arguments.list:
        print("all targets met" if not missed else f"targets missed in {missed}")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
