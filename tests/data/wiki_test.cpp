// Dumps of wikis: pages out of pieces of any size, and text without markup.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "data/corpus/wiki_dump.h"
#include "data/corpus/wiki_text.h"

namespace mt {
namespace {

TEST(WikiText, MarkupIsTakenAway) {
  const std::pair<const char*, const char*> cases[] = {
      {"'''Ann''' is ''here''.", "Ann is here."},
      {"[[Bob]] and [[Cleo|her]] see [[:Dan]].", "Bob and her see Dan."},
      {"a [[File:x.png|thumb|of [[Eve]]]]b [[Category:Things]]c [[de:Ding]]d", "a b c d"},
      {"see [http://x.org/y the page] and [https://x.org]now", "see the page and now"},
      {"a{{cite|b={{c}}|d}} e {{open", "a e"},
      {"x <!-- no\n --> y<ref name=\"a\">no</ref><ref name=b /> z<br/>w", "x y z w"},
      {"2 < 3 and <b>5</b> > 4", "2 < 3 and 5 > 4"},
      {"<math>x^2</math>is <nowiki>''not''</nowiki>", "is not"},
      {"before\n{| class=x\n|-\n| {| in |}\n|}\nafter", "before\n\nafter"},
      {"== Head ==\n* one\n** two\n\n\n# three\n----\n: four", "Head\none\ntwo\n\nthree\n\nfour"},
      {"Ann ({{lang}}; , born 1900) and (, ) Bob", "Ann (born 1900) and Bob"},
      {"a&nbsp;&ndash;&#228;&#xE4;&amp;lt; &nosuch; & b", "a \u2013\u00e4\u00e4&lt; &nosuch; & b"},
      {"__NOTOC__a __b__ 'c'", "a __b__ 'c'"},
      {"[[open and ]] [not http] ''", "open and [not http]"},
      {"", ""},
  };
  for (const auto& [markup, text] : cases) EXPECT_EQ(wiki_text(markup), text) << markup;
}

// Each a megabyte that took minutes, or more stack than there is, where the rest of a text was
// looked through at each sign.
TEST(WikiText, SignsThatNeverEndTakeNoLonger) {
  const auto times = [](std::string_view sign, std::size_t count) {
    std::string text;
    while (count-- > 0) text += sign;
    return text;
  };
  constexpr std::size_t kMany = std::size_t{1} << 19;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(wiki_text(times("[[", kMany)).size(), 2 * kMany);
  EXPECT_EQ(wiki_text(times("[[", 100) + "a" + times("]]", 100)),
            times("[[", 36) + "a" + times("]]", 36));
  EXPECT_EQ(wiki_text(times("[[", kMany) + "a" + times("]]", kMany)).size(), 4 * (kMany - 64) + 1);
  EXPECT_EQ(wiki_text(times("[[b|", kMany) + "a" + times("]]", kMany)),
            "a" + times("]]", kMany - 1));
  EXPECT_EQ(wiki_text(times("[http://", kMany)).size(), 8 * kMany);
  EXPECT_EQ(wiki_text(times("<ref>a", kMany)), times("a", kMany));
  EXPECT_EQ(wiki_text(times("<a", kMany)).size(), 2 * kMany);
  EXPECT_EQ(wiki_text(times("{{{|<!-", kMany)), "");
  EXPECT_EQ(wiki_text(times("&a", kMany)).size(), 2 * kMany);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

std::vector<WikiPage> pages_of(std::string_view dump, std::size_t piece) {
  std::vector<WikiPage> pages;
  for_wiki_pages(
      "dump",
      [&](std::span<char> room) {
        const std::size_t count = std::min({piece, room.size(), dump.size()});
        std::memcpy(room.data(), dump.data(), count);
        dump.remove_prefix(count);
        return count;
      },
      [&](WikiPage page) { pages.push_back(std::move(page)); });
  return pages;
}

TEST(WikiDump, PagesAreFoundInPiecesOfAnySize) {
  const std::string dump =
      "<mediawiki version=\"0.10\">\n<siteinfo/>\n"
      "<page>\n<title>A &amp; B</title><ns>0</ns><id>12</id><revision><id>7</id>"
      "<text bytes=\"3\" xml:space=\"preserve\">&lt;b&gt;</text></revision></page>\n"
      "<page><title>C</title><ns>0</ns><id>13</id><redirect title=\"A\" /><text>x</text></page>"
      "<page><title>Talk:A</title><ns>1</ns><id>14</id></page>"
      "<page><title>E</title><ns>0</ns><id>15</id><text xml:space=\"preserve\" /></page>"
      "</mediawiki>\n";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{64}, dump.size()}) {
    const std::vector<WikiPage> pages = pages_of(dump, piece);
    ASSERT_EQ(pages.size(), 4U) << piece;
    EXPECT_EQ(pages[0].title, "A & B");
    EXPECT_EQ(pages[0].id, "12");
    EXPECT_EQ(pages[0].markup, "<b>");
    EXPECT_TRUE(pages[0].is_article && !pages[0].is_redirect);
    EXPECT_TRUE(pages[1].is_redirect);
    EXPECT_FALSE(pages[2].is_article);
    EXPECT_EQ(pages[3].markup, "");
  }
}

TEST(WikiDump, WhatIsNoDumpIsRefused) {
  for (const char* wrong : {"", "no dump", "<mediawiki><page><title>a</title>",
                            "<mediawiki><page><title>a</title></page>",
                            "<mediawiki><page><id>1</id><title>a</title></page>"})
    EXPECT_THROW(pages_of(wrong, 5), Error) << wrong;
}

}  // namespace
}  // namespace mt
