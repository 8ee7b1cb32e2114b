#!/usr/bin/env python3
"""Makes testdata/eval/vqa.jsonl: answers, and what the VQA evaluation makes of them.

Each line has an answer, what ten people (or some others) have answered, the form that the evaluation compares and the accuracy.
First comes the file's origin, then every contraction, number and sign that it knows, then answers drawn of such words.

Run:  scripts/make-vqa-goldens.py VQA/PythonEvaluationTools/vqaEvaluation/vqaEval.py > testdata/eval/vqa.jsonl
VQA: a clone of github.com/GT-Vision-Lab/VQA (made with its master, which is of Python 2: what it prints is left out).
"""
import json
import random
import re
import sys


def load(path):
    lines = [re.sub(r"print .*", "pass", line) for line in open(path, encoding="utf-8").read().splitlines()]
    names = {}
    exec(compile("\n".join(lines), path, "exec"), names)  # noqa: S102
    return names["VQAEval"]


class Answers:
    """What the evaluation asks of the files of questions and of results."""

    def __init__(self, qa):
        self.qa = qa

    def getQuesIds(self):
        return list(self.qa)


def judge(evaluation, answer, people):
    given = {0: {"answers": [{"answer": one, "answer_id": i} for i, one in enumerate(people)], "question_type": "", "answer_type": ""}}
    judge = evaluation(Answers(given), Answers({0: {"answer": answer}}), n=12)
    judge.evaluate()
    return judge.accuracy["overall"] / 100


def main():
    evaluation = load(sys.argv[1])
    evaluation.updateProgress = lambda *_: None  # which it would print
    one = evaluation(Answers({}), Answers({}))
    words = sorted(one.contractions) + sorted(set(one.contractions.values())) + sorted(one.manualMap) + one.articles
    words += ["cat", "Dog", "3", "1,000", "2.5", "a.m.", "U.S.", ".5", "yes", "YES", "it's", "\u00c9t\u00e9", "x-ray", "5%", "$7", "'", "\u00a0"]
    rng = random.Random(1)

    def text():
        made = []
        for _ in range(rng.randint(1, 4)):
            made.append(rng.choice(words))
            if rng.random() < 0.3:
                made.append(rng.choice(one.punct + [".", ":", "\n", "\t", "  "]))
        return "".join(w + rng.choice(["", " ", " "]) for w in made)

    print(json.dumps({"from": "vqaEval.py of GT-Vision-Lab/VQA, master"}))
    cases = [(word, [word, "x"]) for word in words]
    cases += [(f"a{mark}b {mark}c", ["ab c", "x"]) for mark in one.punct] + [(f"a{mark}b", ["a b", "ab"]) for mark in one.punct]
    cases += [("1,000-x", ["1000x", "y"]), ("." * 40, ["." * 8, "y"]), ("a", ["a"] * 10), ("A", ["a"] * 10), ("", ["a", "b"])]
    for _ in range(300):
        people = [text() for _ in range(3)]
        people = [rng.choice(people) for _ in range(rng.choice([1, 2, 3, 10, 10, 10]))]
        cases.append((rng.choice([*people, text(), people[0].upper()]), people))
    for answer, people in cases:
        form = one.processDigitArticle(one.processPunctuation(answer))
        print(json.dumps({"answer": answer, "people": people, "form": form, "accuracy": judge(evaluation, answer, people)}))


main()
