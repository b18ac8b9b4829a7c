// The C interface's messages: the handler of notes, the wording, and pulls without a handler.
#include "fovea/c/status.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "fovea/c/encoder.h"
#include "fovea/c/hub.h"

namespace {

void ignore(const char* /*note*/) {}

TEST(NoteHandler, GivesBackTheOneBefore) {
  EXPECT_EQ(fovea_set_note_handler(ignore), nullptr);
  EXPECT_EQ(fovea_set_note_handler(nullptr), ignore);
  EXPECT_EQ(fovea_set_note_handler(nullptr), nullptr);
}

std::string why_not_loaded() {
  ::setenv("HF_HOME", "/nowhere", 1);
  fovea_encoder* encoder = nullptr;
  EXPECT_EQ(fovea_encoder_load("no-one/has-this", "cpu", "auto", 0, &encoder), FOVEA_FAILED);
  return fovea_last_error();
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Wording, IsTheOneThatWasSet) {
  fovea_set_wording(FOVEA_WORDING_PYTHON);
  EXPECT_TRUE(holds(why_not_loaded(), "`fovea.pull(\"no-one/has-this\")`"));
  fovea_set_wording(FOVEA_WORDING_PROGRAM);
  EXPECT_TRUE(holds(why_not_loaded(), "`fovea pull no-one/has-this`"));
  fovea_set_wording(FOVEA_WORDING_CPP);
  EXPECT_TRUE(holds(why_not_loaded(), "`fovea::pull({.id = \"no-one/has-this\"})`"));
  fovea_set_wording(FOVEA_WORDING_C);
  EXPECT_TRUE(holds(why_not_loaded(), "`fovea_pull(\"no-one/has-this\", NULL, ...)`"));
}

TEST(Pull, SaysWhyItFails) {
  const char* folder = nullptr;
  EXPECT_EQ(fovea_pull("no-slash", nullptr, nullptr, nullptr, &folder), FOVEA_FAILED);
  EXPECT_NE(std::string(fovea_last_error()).find("org/name"), std::string::npos);
  EXPECT_EQ(fovea_pull(nullptr, nullptr, nullptr, nullptr, &folder), FOVEA_FAILED);
  EXPECT_STREQ(fovea_last_error(), "name is NULL");
  EXPECT_EQ(folder, nullptr);
}

}  // namespace
