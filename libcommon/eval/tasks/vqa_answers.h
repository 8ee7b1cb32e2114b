// Answers to questions about images, judged as the VQA evaluation does (Antol et al.:
// arXiv:1505.00468; VQA's vqaEval.py), as others do that answer with a word or a number.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace mt {

// The form that answers are compared in: in lower case, without articles and most punctuation, with
// digits for numbers up to ten and the apostrophes of contractions.
std::string vqa_answer(std::string_view text);

// How right an answer is, whose question people answered so: over all of these, the mean of
// min(1, n / 3), where n of the others are the answer.  Where all people agree, the answer is
// compared as it stands.
double vqa_accuracy(std::string_view answer, std::span<const std::string> people);

// 1 where both are numbers, perhaps with commas, a $ or a %, which count nothing, that are a
// twentieth of the right one apart at most, or the same words in any case (ChartQA:
// arXiv:2203.10244).
double relaxed_accuracy(std::string_view answer, std::string_view right);

// 1 less the edit distance over the longer one's length, by characters, of the right answer that is
// nearest; 0 where that is below a half (ANLS, DocVQA: arXiv:1907.00490).  Case and blanks at the
// ends or in runs count nothing.
double anls(std::string_view answer, std::span<const std::string> right);

}  // namespace mt
