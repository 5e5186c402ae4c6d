"""No models: Django tells only apps with this module that `migrate` has ended."""
