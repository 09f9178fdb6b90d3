"""Code shared by plugins and adapters, such as structured output, the tool loop, HTTP clients and traces."""
