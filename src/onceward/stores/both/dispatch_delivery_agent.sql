-- Note which process works on a delivery, so that a later life can end it.
update dispatch_deliveries set agent = :agent where id = :id
