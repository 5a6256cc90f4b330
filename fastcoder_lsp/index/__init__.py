"""THE DATASTORE: suffix-array segments over token ids that follow every save and unsaved edit."""
