#pragma once

namespace bench {

// Libraries read the environment when they are loaded. If it does not tell the rivals what is best for them, this sets
// it and starts the program again; what the user has set stays.
void prepare_environment(char** arguments);

}  // namespace bench
