"""What runs: the store, pulling, loading, generating, bring-up."""
