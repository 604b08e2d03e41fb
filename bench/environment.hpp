#pragma once

namespace bench {

// Libraries read the environment when they are loaded. Unless the user has set them, this sets the best options for the
// rivals and restarts the program.
void prepare_environment(char** arguments);

}  // namespace bench
