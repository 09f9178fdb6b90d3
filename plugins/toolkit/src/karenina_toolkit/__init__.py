"""Code shared by plugins and adapters: structured output, the tool loop, endpoints, HTTP errors, traces and more."""
