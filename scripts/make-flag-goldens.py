#!/usr/bin/env python3
"""The flags of Megatron-LM as data, for the test of mt-flags(7).

    python scripts/make-flag-goldens.py Megatron-LM core_v0.12.1 > testdata/megatron_flags.tsv
    python scripts/make-flag-goldens.py Megatron-LM core_v0.12.1 v2.0 v2.6 23.06 core_v0.4.0 \\
      core_v0.5.0 core_v0.7.0 core_v0.10.0 core_v0.11.0 core_v0.13.1 core_v0.14.0 core_v0.15.3 \\
      core_v0.16.1 core_v0.17.1 core_v0.18.2 core_v0.19.0 d98e8a64dd \\
      > testdata/megatron_release_flags.tsv

Reads the source of the argument parser in a clone, which it does not run: calls of add_argument(),
and the fields of the classes that later releases make flags of.  Prints a line per flag in the order
of their names:  NAMES <tab> FORM <tab> DEFAULT <tab> CHOICES.  Given several revisions, prints the
flags that others have and the first has not, each as the last that has it declares it.  NAMES and
CHOICES are joined by commas.  FORM is flag, off-switch, boolean, or what the value is: integer,
number, text; integers, numbers, texts for several.  `-` stands for no default (of a flag: false) and
for any value.  Needs nothing from PyPI.
"""
import ast
import functools
import subprocess
import sys

FORMS = {"int": "integer", "float": "number", "bool": "boolean"}
PARSERS = ["megatron/training/arguments.py", "megatron/arguments.py"]  # where it is, and was


def git(*arguments):
    return subprocess.run(["git", "-C", sys.argv[1], *arguments], check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def parser_of(revision):
    there = git("ls-tree", "--name-only", revision, *PARSERS).split()
    return git("show", f"{revision}:{there[0]}")


def constant(node):
    """The value of an expression of literals, enumerations' names and powers; None for others."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return constant(node.left) ** constant(node.right)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "range":
        return list(range(*(constant(one) for one in node.args)))
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def words(value):
    values = value if isinstance(value, (list, tuple)) else [value]
    return ",".join(str(one) for one in values if one is not None) or "-"


def row(names, form, default, choices):
    return ",".join(names), "\t".join([form, words(default), words(choices)])


# --- A call of add_argument(). ---


def form_of_call(keywords):
    action = constant(keywords["action"]) if "action" in keywords else None
    if action:
        return {"store_true": "flag", "store_false": "off-switch"}.get(action, "flag")
    kind = keywords.get("type")
    many = "s" if "nargs" in keywords and constant(keywords["nargs"]) != "?" else ""
    return FORMS.get(kind.id if isinstance(kind, ast.Name) else "", "text") + many


def row_of_call(call):
    keywords = {one.arg: one.value for one in call.keywords}
    takes_value = "action" not in keywords
    default = constant(keywords["default"]) if takes_value and "default" in keywords else None
    choices = constant(keywords["choices"]) if "choices" in keywords else None
    return row([constant(argument) for argument in call.args], form_of_call(keywords), default,
               choices)


# --- A field of a class: its type says the form, its metadata may say otherwise. ---


@functools.lru_cache(maxsize=None)
def class_named(revision, name):
    where = git("grep", "-l", f"^class {name}\\b", revision, "--", "megatron").split()
    tree = ast.parse(git("show", where[0]))
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def fields(revision, name):
    """Those of the classes it extends first, each once, as the last class declares it."""
    found = {}
    node = class_named(revision, name)
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id not in ("Enum", "object", "ABC"):
            found.update(fields(revision, base.id))
    for one in node.body:
        if isinstance(one, ast.AnnAssign):
            found[one.target.id] = one
    return found


def form_of_type(node):
    """FORM and choices of an annotation: int, Optional[int], int | None, List[int], Literal[...]."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return form_of_type(ast.parse(node.value, mode="eval").body)
    if isinstance(node, ast.BinOp):
        return form_of_type(node.left)
    if isinstance(node, ast.Subscript):
        outer = ast.unparse(node.value).split(".")[-1]
        inner = node.slice
        if outer in ("Optional", "Union"):
            return form_of_type(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)
        if outer == "Literal":
            choices = constant(inner)
            one = choices[0] if isinstance(choices, tuple) else choices
            return FORMS.get(type(one).__name__, "text"), choices
        if outer in ("list", "List"):
            form, choices = form_of_type(inner)
            return form + "s", choices
        return "text", None
    return FORMS.get(ast.unparse(node), "text"), None


def row_of_field(name, node):
    form, choices = form_of_type(node.annotation)
    names = ["--" + name.replace("_", "-")]
    keywords = {}
    if isinstance(node.value, ast.Call) and ast.unparse(node.value.func).endswith("field"):
        keywords = {one.arg: one.value for one in node.value.keywords}
        default = constant(keywords["default"]) if "default" in keywords else None
    else:
        default = constant(node.value) if node.value is not None else None
    if constant(keywords.get("init", ast.Constant(True))) is False:
        return None
    if form == "boolean":
        form = "off-switch" if default else "flag"
        if default:
            names = ["--no-" + names[0][2:], "--disable-" + names[0][2:]]
    meta = {}
    if "metadata" in keywords:
        for key, value in zip(keywords["metadata"].keys, keywords["metadata"].values):
            if constant(key) == "argparse_meta":
                meta = {constant(k): v for k, v in zip(value.keys, value.values)}
    names = constant(meta["arg_names"]) if "arg_names" in meta else names
    default = constant(meta["default"]) if "default" in meta else default
    choices = constant(meta["choices"]) if "choices" in meta else choices
    if "type" in meta:
        form = FORMS.get(ast.unparse(meta["type"]), "text")
    if "nargs" in meta:
        form = form.rstrip("s") + "s"
    if form in ("flag", "off-switch"):
        default = choices = None
    return row(names, form, default, choices)


def excluded(call, function):
    """The names after exclude=, a list there or a variable of the function around."""
    for one in call.keywords:
        if one.arg == "exclude" and isinstance(one.value, ast.Name):
            return next(constant(node.value) for node in ast.walk(function)
                        if isinstance(node, ast.Assign) and node.targets[0].id == one.value.id)
        if one.arg == "exclude":
            return constant(one.value)
    return []


def flags(revision):
    found = {}
    for function in ast.parse(parser_of(revision)).body:
        for call in ast.walk(function):
            if not isinstance(call, ast.Call):
                continue
            if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
                rows = [row_of_call(call)]
            elif isinstance(call.func, ast.Name) and call.func.id == "ArgumentGroupFactory":
                out = excluded(call, function)
                rows = [row_of_field(name, node)
                        for name, node in fields(revision, call.args[0].id).items()
                        if name not in out]
            else:
                continue
            found.update(one for one in rows if one)
    return found


first, *others = sys.argv[2:]
listed = flags(first)
known = {name for names in listed for name in names.split(",")}
if others:
    listed = {}
    for names, cells in (item for revision in others for item in flags(revision).items()):
        beyond = [name for name in names.split(",") if name not in known]
        for name in beyond:
            listed.pop(name, None)  # of a release that had it alone
        if beyond:
            listed[",".join(beyond)] = cells
print(f"# Megatron-LM {' '.join(others) if others else first}, {PARSERS[0]}: {len(listed)} flags"
      + (f" that {first} has not" if others else ""))
for names, cells in sorted(listed.items()):
    print(f"{names}\t{cells}")
