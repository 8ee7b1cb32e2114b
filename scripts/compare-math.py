#!/usr/bin/env python3
"""Compare mt-finetune's reward `math` with Hugging Face's Math-Verify: which texts end with the answer that was wanted.

The cases are those of testdata/post/math-cases.tsv, a wanted answer and a text a line, parted by a tab, and others drawn
from a seed: numbers, fractions, roots, terms, sets, intervals and equations as models write them, in boxes, formulas and
sentences, half of them right.  The wanted answer is given to Math-Verify in a formula.  Its verdicts, true or false before
each case, are what the tests compare ours with.

  --drawn N    how many are drawn [400]
  --write FILE where the verdicts go [testdata/post/math-verdicts.tsv]; a longer file is compared by the test, too

Needs from PyPI: math-verify with antlr4-python3-runtime (tried with 0.9.0, 4.13.2).
Run:  scripts/compare-math.py --drawn 5000; build/release/tests/post/post_test --file=post/policy/math_answer_test.cpp
"""
import argparse
import logging
import pathlib
import random
from fractions import Fraction

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

logging.disable(logging.CRITICAL)
TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata/post"
# Where ours says more: what Math-Verify does not solve, read or simplify.
OURS = {("2ab", r"\boxed{2ba}"), ("i", r"\boxed{\sqrt{-1}}"), ("2x=6", r"\boxed{x=3}"), ("x>2", r"\boxed{2x>4}"),
        (r"\frac{1}{3}\%", r"\boxed{0.0033333}")}
FRAMES = [r"\boxed{%s}", r"So the result is $\boxed{%s}$.", "The answer is $%s$.", "Thus $%s$", r"we get \[%s\]",
          "Answer: $%s$", "First $x=7$, and then $%s$.", r"The final answer is \(%s\)", r"\boxed{8}, no, it is not. I should "
          r"take everything together once more and then conclude: \boxed{%s}"]
PLAIN = ["The answer is %s.", "%s", "It is %s", "answer: %s", "2 and 3 make %s", "Therefore x = %s", "The final answer is %s."]


def latex(x):
    return str(x.numerator) if x.denominator == 1 else rf"{'-' if x < 0 else ''}\frac{{{abs(x.numerator)}}}{{{x.denominator}}}"


def number(draw):
    """A number as an answer is wanted, and as a text may have it, in LaTeX or plainly."""
    x = Fraction(draw.randint(-999, 9999), draw.choice([1, 1, 1, 2, 3, 4, 5, 7, 8, 12, 100]))
    decimal = f"{float(x):.6f}".rstrip("0").rstrip(".")
    forms = [latex(x), decimal]
    if x.denominator == 1:
        forms += [f"{int(x):,}", f"{int(x)}.0", rf"{int(x)}\text{{ cm}}", rf"\${int(x)}", rf"{int(x)}^\circ", f"{int(x)} km"]
    else:
        forms += [f"{x.numerator}/{x.denominator}", latex(x).replace("frac", "dfrac"), rf"{x.numerator * 3}/{x.denominator * 3}",
                  rf"{float(x * 100):.4f}\%"]
        if x > 1:
            forms.append(rf"{int(x)}{latex(x - int(x))}")
    plain = [decimal] + ([f"{x.numerator}/{x.denominator}"] if x.denominator > 1 else [f"{int(x):,}", f"${int(x)}"])
    return latex(x), draw.choice(forms), draw.choice(plain)


def root(draw):
    a, b = draw.randint(2, 9), draw.choice([2, 3, 5, 6, 7])
    form = draw.choice([rf"\sqrt{{{a * a * b}}}", rf"{a}\sqrt{b}", rf"{b * a}/\sqrt{{{b}}}", f"{a * b ** .5:.6f}",
                        rf"\frac{{{2 * a}\sqrt{{{b}}}}}{{2}}", rf"{a} \cdot {b}^{{1/2}}"])
    return rf"{a}\sqrt{{{b}}}", form, None


def term(draw):
    a, b, c = (draw.randint(1, 9) for _ in range(3))
    x, y = draw.sample("xyznk", 2)
    return draw.choice([
        (f"{a}{x}+{b}", f"{b}+{a}{x}"), (f"({x}+{a})({x}-{b})", f"{x}^2+{a - b}{x}-{a * b}".replace("+-", "-")),
        (f"{x}^2{y}", f"{y}{x}^2"), (rf"\frac{{{x}}}{{{a}}}", f"{x}/{a}"), (f"{a}({x}+{y})", f"{a}{x}+{a}{y}"),
        (rf"{a}\pi", rf"\pi\cdot {a}"), (rf"{a}e^{{{x}}}", rf"{a} e^{x}"), (rf"\frac{{{x}+{y}}}{{2}}", rf"\frac{{{y}+{x}}}{{2}}"),
        (rf"{x}^{{{a}}}", f"{x}^{{{a}}}"), (rf"\ln({a})", rf"\ln {a}"), (f"{a}+{b}i", f"{b}i+{a}"), (f"{x}={c}", f"{c}"),
        (f"{c}", f"{x}={c}"), (f"{y}={a}{x}+{b}", f"{a}{x}-{y}+{b}=0"), (f"{x}>{a}", f"{a}<{x}"),
        (rf"{x}\ge {a}", rf"[{a},\infty)"), (f"{a}<{x}<{a + b}", f"({a},{a + b})")]) + (None,)


def several(draw):
    some = sorted(draw.sample(range(-9, 30), draw.choice([2, 2, 3])))
    words, back = ", ".join(map(str, some)), ", ".join(map(str, reversed(some)))
    a, b = some[:2]
    return draw.choice([
        (words, back), (rf"\{{{words}\}}", words), (rf"\{{{words}\}}", rf"\{{{back}\}}"), (f"({words})", f"({words})"),
        (f"[{a},{b})", rf"\left[{a}, {b}\right)"), (f"({a},{b})", f"{a},{b}"), (f"{a}, {b}", f"x={a}, x={b}"),
        (f"({a},{b})\\cup[{b + 2},\\infty)", rf"({a}, {b}) \cup [{b + 2}, \infty)"), (words, " and ".join(map(str, some))),
        (rf"\begin{{pmatrix}}{a}\\{b}\end{{pmatrix}}", rf"\begin{{bmatrix}} {a} \\ {b} \end{{bmatrix}}"),
        (rf"\pm {abs(a) + 1}", f"{-abs(a) - 1}, {abs(a) + 1}")]) + (None,)


def drawn(count):
    draw = random.Random(1)
    for _ in range(count):
        kind = draw.choice([number, number, number, root, term, several])
        wanted, form, plain = kind(draw)
        if draw.random() < 0.5:  # another's answer, or one that differs in a digit
            other = kind(draw)
            form, plain = other[1:] if draw.random() < 0.5 else (form.translate({ord("3"): "4"}), plain and plain.replace("3", "4"))
        text = draw.choice(PLAIN) % plain if plain and draw.random() < 0.4 else draw.choice(FRAMES) % form
        yield wanted, text.removesuffix(".") if plain and "/" in plain else text  # 1/3. is a third in 15 digits to Math-Verify


def verdict(wanted, text):
    gold = parse(f"${wanted}$", extraction_config=[LatexExtractionConfig()])
    said = parse(text, extraction_config=[LatexExtractionConfig(), ExprExtractionConfig()])
    return bool(verify(gold, said))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drawn", type=int, default=400)
    parser.add_argument("--write", type=pathlib.Path, default=TESTDATA / "math-verdicts.tsv")
    args = parser.parse_args()
    cases = [tuple(line.split("\t")) for line in (TESTDATA / "math-cases.tsv").read_text().splitlines()]
    cases += drawn(args.drawn)
    with args.write.open("w") as file:
        for wanted, text in cases:
            same = (wanted, text) in OURS or verdict(wanted, text)
            file.write(f"{'true' if same else 'false'}\t{wanted}\t{text}\n")


if __name__ == "__main__":
    main()
