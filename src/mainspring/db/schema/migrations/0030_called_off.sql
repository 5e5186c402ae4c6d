-- A call that runs may be called off: why stands in its row until its run has ended. Null: nobody has. Workers of the release before
-- see that such a visit has expired, so they start it no more.
alter table mainspring.visit add column called_off text;
