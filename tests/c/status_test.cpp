// The C interface's handler of notes: none at first, and whoever sets one gets the one before.
#include "fovea/c/status.h"

#include <gtest/gtest.h>

namespace {

void ignore(const char* /*note*/) {}

TEST(NoteHandler, GivesBackTheOneBefore) {
  EXPECT_EQ(fovea_set_note_handler(ignore), nullptr);
  EXPECT_EQ(fovea_set_note_handler(nullptr), ignore);
  EXPECT_EQ(fovea_set_note_handler(nullptr), nullptr);
}

}  // namespace
