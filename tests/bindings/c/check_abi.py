#!/usr/bin/env python3
"""Usage: check_abi.py [--update] [--nm NM] [--cc CC] LIBRARY
Compares what programs that use the C interface rely on with abi.txt, which is beside this script: the functions and
their types, the values of enumerators, the layout of structures. --update writes abi.txt anew.

Also fails if the header and the library differ, or if misuse.c leaves out a function that can be misused."""

import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
include = here.parent.parent.parent / "include"
abi = here / "abi.txt"


def header_text():
    """The header without comments and preprocessor lines, which go on after a backslash."""
    text = re.sub(r"/\*.*?\*/", "", (include / "tessera/tessera.h").read_text(), flags=re.S)
    return re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.M)


def functions(text):
    """Declarations by name."""
    found = [" ".join(words.split()) for words in re.findall(r"TESSERA_C_API ([^;]+);", text)]
    return {re.search(r"(\w+)\(", declaration)[1]: declaration for declaration in found}


def callback_types(text):
    return [" ".join(words.split()) for words in re.findall(r"typedef ([^;{}]*\(\*[^;{}]*);", text)]


def enumerators(text):
    for name, body in re.findall(r"typedef enum (\w+) TESSERA_AS_INT32 \{(.*?)\}", text, flags=re.S):
        for enumerator, value in re.findall(r"(\w+) = (\d+)", body):
            yield f"{name} {enumerator} = {value}"


def structures(text):
    """Pairs of a structure's name and the names of its members."""
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, flags=re.S):
        yield name, [re.search(r"(\w+)(\[\w+\])?$", member.strip())[1] for member in body.split(";") if member.strip()]


def layout(text, compiler):
    """Sizes and offsets, as a program prints them that is compiled here."""
    lines = []
    for name, members in structures(text):
        lines.append(f'printf("struct {name}: %zu bytes\\n", sizeof({name}));')
        for member in members:
            lines.append(f'printf("  {name}.{member}: at %zu, %zu bytes\\n", offsetof({name}, {member}), '
                         f"sizeof((({name}*)0)->{member}));")
    program = "#include <tessera/tessera.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "layout.c"
        source.write_text(program)
        subprocess.run([compiler, "-std=c11", f"-I{include}", source, "-o", f"{folder}/layout"], check=True)
        return subprocess.run([f"{folder}/layout"], check=True, capture_output=True, text=True).stdout.splitlines()


def exported(library, nm):
    listed = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in listed.splitlines()}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("library")
    arguments = parser.parse_args()

    text = header_text()
    declared = functions(text)
    symbols = exported(arguments.library, arguments.nm)
    problems = [f"{name} is declared but not exported" for name in sorted(declared.keys() - symbols)]
    problems += [f"{name} is exported but not declared" for name in sorted(symbols - declared.keys())]
    tried = set(re.findall(r"\btessera_\w+(?=\()", (here / "misuse.c").read_text()))
    problems += [f"misuse.c does not try {name}" for name, declaration in sorted(declared.items())
                 if not declaration.endswith("(void)") and name not in tried]

    lines = sorted(declared.values(), key=lambda line: re.search(r"(\w+)\(", line)[1])
    lines += callback_types(text) + list(enumerators(text)) + layout(text, arguments.cc)
    if arguments.update:
        abi.write_text("\n".join(lines) + "\n")
    changes = list(difflib.unified_diff(abi.read_text().splitlines(), lines, "abi.txt", "now", lineterm="", n=0))
    if changes:
        problems += changes
        problems.append("The C ABI has changed, and programs that were compiled before may break. docs/compatibility.md "
                        "says what may change when. If this is meant to, run\n"
                        f"  python3 {pathlib.Path(__file__).resolve()} --update {arguments.library}\n"
                        "and commit abi.txt.")
    print("\n".join(problems) if problems else f"{len(declared)} functions: the ABI is as in abi.txt")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
