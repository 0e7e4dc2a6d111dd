"""Access: who may use a server of this machine: its owner by user id, or a client by token."""
