#!/usr/bin/env python3
"""The flags of Megatron-LM as data, for the test of mt-flags(7).

    git -C Megatron-LM show core_v0.12.1:megatron/training/arguments.py |
      python scripts/make-flag-goldens.py core_v0.12.1 > testdata/megatron_flags.tsv

Reads the source of the argument parser, which it does not run, and prints a line per flag in the
order of their names:  NAMES <tab> FORM <tab> DEFAULT <tab> CHOICES.  NAMES and CHOICES are joined by
commas.  FORM is flag, off-switch, boolean, or what the value is: integer, number, text; integers,
numbers, texts for several.  `-` stands for no default (of a flag: false) and for any value.
Needs nothing from PyPI.
"""
import ast
import sys

FORMS = {"int": "integer", "float": "number", "bool": "boolean"}


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


def form(keywords):
    action = constant(keywords["action"]) if "action" in keywords else None
    if action:
        return {"store_true": "flag", "store_false": "off-switch"}[action]
    kind = keywords.get("type")
    many = "s" if "nargs" in keywords else ""
    return FORMS.get(kind.id if isinstance(kind, ast.Name) else "", "text") + many


def words(value):
    values = value if isinstance(value, list) else [value]
    return ",".join(str(one) for one in values if one is not None) or "-"


def row(call):
    keywords = {one.arg: one.value for one in call.keywords}
    takes_value = "action" not in keywords
    default = constant(keywords["default"]) if takes_value and "default" in keywords else None
    choices = constant(keywords["choices"]) if "choices" in keywords else None
    names = ",".join(argument.value for argument in call.args)
    return "\t".join([names, form(keywords), words(default), words(choices)])


calls = [node for node in ast.walk(ast.parse(sys.stdin.read()))
         if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
         and node.func.attr == "add_argument"]
print(f"# Megatron-LM {sys.argv[1]}, megatron/training/arguments.py: {len(calls)} flags")
for line in sorted(row(call) for call in calls):
    print(line)
