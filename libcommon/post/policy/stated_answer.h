// Answers that a text states behind "Answer:", compared as texts, as NeMo RL's environments do.
#pragma once

#include <string>
#include <string_view>

namespace mt {

// Whether what stands behind the last "Answer:" of the text's last 300 characters, up to the line's
// end, is the answer, both normalized; DAPO's rule (arXiv:2503.14476).
bool states_answer(std::string_view text, std::string_view answer);

// Gives of an answer of mathematics what is behind the last =, without articles, blanks, units and
// marks of LaTeX, with braces around what \frac and \sqrt are of (arXiv:2206.14858, appendix D.1,
// but for ft), and without white space at its sides, which goes last: with some, a number keeps its
// commas.
std::string normalized_answer(std::string_view answer);

// Whether the letter behind the first "Answer:" of the text is the answer, without what Markdown
// and LaTeX put around it.
bool states_letter(std::string_view text, std::string_view answer);

}  // namespace mt
