"""What plugins and adapters share: structured output, the tool loop, endpoints, HTTP errors, traces, workspaces."""
