"""From records to tables, figures and pages; reads files and never imports TensorFlow."""
